#include "gpu/kernels/step_clock.h"

#include <algorithm>
#include <cmath>

namespace railyard::gpu {

GpuDatasheet at_step_clock(GpuDatasheet gpu) {
  const double power = gpu.sm.power_limit_w > 0 ? gpu.sm.power_limit_w / gpu.sm.power_w : 1;
  const double clock = std::sqrt((power - kPowerWithoutLoad) / (1 - kPowerWithoutLoad));
  const double ratio = std::min(1.0, gpu.sm.step_clock_ratio * clock);
  gpu.sm.clock_mhz *= ratio;
  // Efficiencies are shares of the peak, which falls with the clock.
  for (double* sustained : {&gpu.sm.sustained_efficiency_ratio, &gpu.sm.low_precision_sustained_ratio})
    *sustained = std::min(gpu.sm.burst_efficiency_ratio, *sustained / ratio);
  return gpu;
}

}  // namespace railyard::gpu
