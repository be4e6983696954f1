#include "gpu/energy.h"

#include "gpu/datasheet.h"

namespace railyard::gpu {

Energy energy_of(const GpuDatasheet& gpu, double clock, const EnergyUse& use) {
  constexpr double kJoulesPerPj = 1e-12;
  return {gpu.energy.idle_w * use.seconds, clock * clock * gpu.energy.sm_w * use.sm_seconds, clock * use.tensor_j,
          gpu.energy.hbm_pj_per_byte * kJoulesPerPj * use.bytes};
}

}  // namespace railyard::gpu
