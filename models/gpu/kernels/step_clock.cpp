#include "gpu/kernels/step_clock.h"

#include <algorithm>
#include <cmath>

#include "gpu/datasheet.h"

namespace railyard::gpu {

namespace {

/// Clock at a mean power of load, as a share of the clock at power_w.
double clock_at(double power, double idle) { return std::sqrt(std::max(0.0, power - idle) / (1 - idle)); }

}  // namespace

GpuDatasheet at_step_clock(GpuDatasheet gpu, const LayerTraffic& traffic) {
  const KernelConstants::StepPower& power = gpu.kernels.step_power;
  const double limit = gpu.sm.power_limit_w > 0 ? gpu.sm.power_limit_w / gpu.sm.power_w : 1;
  const double of_waits = traffic.waits * std::min(power.waits_ratio, limit);
  const double of_transfers = gpu.sm.step_clock_ratio < 1 ? traffic.beside * power.transfers_ratio : 0;
  const double of_kernels = (limit - of_waits - of_transfers) / (1 - traffic.waits);
  const double steady = std::min(1.0, gpu.sm.step_clock_ratio * clock_at(limit, power.idle_ratio));
  const double most = std::max(steady, gpu.sm.burst_efficiency_ratio);
  const double ratio = std::min(most, gpu.sm.step_clock_ratio * clock_at(of_kernels, power.idle_ratio));
  gpu.sm.clock_mhz *= ratio;
  // Efficiencies are shares of the peak, which falls with the clock.
  for (double* sustained : {&gpu.sm.sustained_efficiency_ratio, &gpu.sm.low_precision_sustained_ratio})
    *sustained = std::min(gpu.sm.burst_efficiency_ratio, *sustained / steady);
  return gpu;
}

}  // namespace railyard::gpu
