// Clock of a GPU in a whole training step.
//
// A step keeps all units of a GPU busy for seconds: tensor cores, memory, links. The GPU is at its power limit all the
// time, and lowers the clock of its SMs until the power fits. Tables of single kernels do not show this clock, because a
// kernel that runs alone has the power of all other units for itself. sm.step_clock_ratio is this clock at power_w.
//
// Another power limit changes the clock. Two H100 drew 120 of 700 W without load. What a layer in bf16 drew beyond that
// rose with clock^2.0, between 1425 and 1677 MHz (scripts/measure_step_clock.py; docs/training.md has the figures). The
// share of power_w without load (KernelConstants::StepPower, as the other shares), and the exponent, are taken for all GPUs.
//
// The limit holds for the mean power over some tenths of a second. While the SMs wait for a collective of a layer, the GPU
// draws less, and the kernels between the waits get what is left: (limit - w x waits_ratio) / (1 - w), if the layer
// waits a share w of the time. Five series on three H100, with w of 0.1, 0.2 and 0.3, had 1.03, 1.08 and 1.13 times the
// clock without waits (means); by the rule it is 1.04, 1.09 and 1.15. The clock of bursts, burst_efficiency_ratio, is
// the most.
//
// Collectives beside products draw power, too: transfers_ratio while they run. Where no clock of a step is known
// (step_clock_ratio 1), nothing says that power is short, and the clock stays.
#pragma once

namespace railyard::gpu {

struct GpuDatasheet;

/// Of power_w; nvidia-smi accepts 100 of 400 W on an A100, 200 of 700 W on an H100.
constexpr double kLeastPowerLimit = 0.25;

/// Collectives of layers, as shares of the time of kernels and waits.
struct LayerTraffic {
  double waits = 0;   ///< SMs wait for them
  double beside = 0;  ///< they run beside products
};

/// What a rank does in its layers, summed.
struct LayerTime {
  double kernels_s = 0;
  double waits_s = 0;   ///< collectives for which the SMs wait
  double beside_s = 0;  ///< collectives beside products

  /// @pre there are kernels or waits
  LayerTraffic traffic() const {
    const double all_s = kernels_s + waits_s;
    return {waits_s / all_s, beside_s / all_s};
  }
};

/// The GPU as it runs in a whole training step: a lower clock, and with it the rates of tensor cores, L2 and operand
/// feed. Matrix products get the lower of two rates: at this clock without a power limit of their own, and
/// sustained_efficiency_ratio, to which a product alone throttles; with waits this rate grows as the clock does. Memory keeps
/// its rate.
/// @pre waits are below 1; power_limit_w, if set, is at least kLeastPowerLimit x power_w
GpuDatasheet at_step_clock(GpuDatasheet gpu, const LayerTraffic& traffic = {});

}  // namespace railyard::gpu
