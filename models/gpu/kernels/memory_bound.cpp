#include "gpu/kernels/memory_bound.h"

#include <algorithm>
#include <cmath>

#include "base/units.h"
#include "gpu/kernels/device_terms.h"

namespace railyard::gpu {
namespace {

constexpr double kCopyOverlap = 1;  // p-norm of copies: L2 and HBM time add up
constexpr double kWarpThreads = 32;
constexpr std::uint32_t kMostBlocksPerSm = 32;

void describe(KernelTime& time, const GpuDatasheet& gpu, double part_of_ctas) {
  const double largest = std::max({time.fixed_seconds, time.hbm_seconds, time.l2_seconds, part_of_ctas});
  time.limit = largest == time.hbm_seconds  ? KernelLimit::hbm
               : largest == time.l2_seconds ? KernelLimit::l2
                                            : KernelLimit::launch;
  time.sms = static_cast<std::uint32_t>(std::min<std::uint64_t>(time.ctas, gpu.sm.count));
  time.seconds = time.seconds_on({static_cast<double>(gpu.sm.count)});
}

KernelTime traffic_time(const GpuDatasheet& gpu, double bytes, double cold_bytes) {
  KernelTime time;
  const double missed = missed_ratio(gpu, bytes);
  time.bytes = missed * bytes + cold_bytes;
  time.fixed_seconds = gpu.kernel.launch_us * kSecondsPerUs;
  time.hbm_seconds = time.bytes / (gpu.hbm.stream_ratio * gpu.hbm.gb_per_s * 1e9);
  time.l2_seconds = (1 - missed) * bytes / (gpu.kernels.memory_bound.copy_l2_ratio * gpu.l2_bytes_per_s());
  time.l2_bytes = bytes + cold_bytes;
  time.overlap_exponent = kCopyOverlap;
  return time;
}

}  // namespace

KernelTime memory_bound_time(const GpuDatasheet& gpu, double bytes, double cold_bytes, double in_flight_bytes) {
  if (bytes + cold_bytes <= 0) return KernelTime();
  KernelTime time = traffic_time(gpu, bytes, cold_bytes);
  time.ctas = gpu.sm.count;
  time.waves = 1;
  if (in_flight_bytes > 0) {
    const KernelConstants::MemoryBound& constants = gpu.kernels.memory_bound;
    time.longest_cta_seconds =
        time.bytes * constants.stream_latency_ratio * gpu.hbm.read_latency_ns * 1e-9 / in_flight_bytes;
    time.overlap_exponent = constants.wait_overlap_exponent;
  }
  describe(time, gpu, time.longest_cta_seconds);
  return time;
}

KernelTime row_kernel_time(const GpuDatasheet& gpu, const RowWork& work) {
  if (work.rows == 0 || work.row_bytes <= 0) return KernelTime();
  const KernelConstants::MemoryBound& constants = gpu.kernels.memory_bound;
  KernelTime time = traffic_time(gpu, work.bytes, work.cold_bytes);
  time.overlap_exponent = constants.wait_overlap_exponent;
  const double loads = std::ceil(work.row_bytes / work.load_bytes);
  const double most_threads =
      std::min<double>(work.most_threads, kWarpThreads * std::floor(gpu.sm.threads / kWarpThreads));
  const double threads = std::clamp(kWarpThreads * std::ceil(loads / kWarpThreads), kWarpThreads, most_threads);
  const double rounds = std::ceil(loads / threads);
  time.ctas = work.rows;
  time.ctas_per_sm = std::min(kMostBlocksPerSm, static_cast<std::uint32_t>(gpu.sm.threads / threads));
  constexpr double kRegistersPerThread = 32, kRegisterBytes = 4;
  time.cta.threads = static_cast<std::uint32_t>(threads);
  time.cta.registers_kib = threads * kRegistersPerThread * kRegisterBytes / kBytesPerKib;
  const double from_hbm = time.bytes / time.l2_bytes;
  const double wait_seconds =
      gpu.hbm.read_latency_ns * 1e-9 *
      (constants.loaded_latency_ratio * (constants.l2_latency_ratio + (1 - constants.l2_latency_ratio) * from_hbm) +
       (work.passes - 1) * constants.further_pass_ratio);
  const auto resident =
      std::min<double>(time.ctas_per_sm, static_cast<double>(ceil_div(work.rows, std::uint64_t(gpu.sm.count))));
  const double issue_seconds =
      work.passes * resident * threads * work.instructions / (gpu.sm.fp32_lanes * gpu.clock_hz());
  time.longest_cta_seconds = constants.block_start_ns * 1e-9 + rounds * (wait_seconds + issue_seconds);
  time.waves = static_cast<std::uint32_t>(ceil_div(work.rows, std::uint64_t(gpu.sm.count) * time.ctas_per_sm));
  time.tail_efficiency =
      static_cast<double>(work.rows) / (static_cast<double>(time.waves) * gpu.sm.count * time.ctas_per_sm);
  describe(time, gpu, time.cta_seconds_on(gpu.sm.count));
  return time;
}

}  // namespace railyard::gpu
