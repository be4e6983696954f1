// Energy that the board of a GPU draws: SMs, L2, memory, and the losses of its supply. Not the links behind the board, NICs,
// switches and hosts, for which there are no constants.
//
//   joules = idle_w x time + clock^2 x sm_w x SM-seconds + clock x tensor_j + hbm_pj_per_byte x bytes
//
// SM-seconds are those of SMs with a thread block, of kernels and of collectives; bytes are those of kernels and messages at
// the memory. The clock is a share of the highest. What a GPU draws beyond its idle power rises with clock^2
// (kernels/step_clock.h), so the energy of a FLOP rises with the clock. Memory keeps its clock. Where the constants come
// from is said in docs/energy.md.
//
// All terms are rates of what the model counts, so a run, an instant of it (SmState::watts) and the sum over a folded machine
// have the same formula.
#pragma once

namespace railyard::gpu {

struct GpuDatasheet;

struct Energy {
  double idle_j = 0, sms_j = 0, tensor_j = 0, hbm_j = 0;
  double total_j() const { return idle_j + sms_j + tensor_j + hbm_j; }
};

/// What a GPU has done.
struct EnergyUse {
  double seconds = 0;
  double sm_seconds = 0;
  double tensor_j = 0;  ///< sum of KernelTime::tensor_j
  double bytes = 0;
};

/// @param clock  as a share of the highest
Energy energy_of(const GpuDatasheet& gpu, double clock, const EnergyUse& use);

}  // namespace railyard::gpu
