#include "gpu/kernels/memory_bound.h"

#include <algorithm>

namespace railyard::gpu {

KernelTime memory_bound_time(const GpuDatasheet& gpu, double bytes, double cold_bytes) {
  KernelTime time;
  if (bytes + cold_bytes <= 0) return time;
  constexpr double kBytesPerMb = 1e6;
  const double room = kL2WorkingRatio * gpu.l2.capacity_mib * kBytesPerMib;
  const double missed = std::clamp(bytes / room - 1, 0.0, 1.0);
  const double ratio = gpu.hbm.stream_ratio * 1e9;
  time.bytes = missed * bytes + cold_bytes;
  const double hbm = (time.bytes + gpu.hbm.half_saturation_mb * kBytesPerMb) / (ratio * gpu.hbm.gb_per_s);
  const double l2 = (1 - missed) * bytes / (ratio * gpu.l2.gb_per_s);
  time.fixed_seconds = gpu.kernel.launch_us * kSecondsPerUs;
  time.hbm_seconds = hbm;
  time.l2_seconds = l2;
  time.l2_bytes = bytes + cold_bytes;
  time.overlap_exponent = 1;  // what hits and what misses come after each other
  time.limit = time.fixed_seconds >= std::max(hbm, l2) ? KernelLimit::launch
               : hbm >= l2                              ? KernelLimit::hbm
                                                        : KernelLimit::l2;
  time.ctas = gpu.sm.count;
  time.waves = 1;
  time.sms = gpu.sm.count;
  time.seconds = time.seconds_on({static_cast<double>(gpu.sm.count)});
  return time;
}

}  // namespace railyard::gpu
