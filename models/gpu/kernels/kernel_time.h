// What a kernel costs on one GPU, and why: the common result of the GEMM, attention and memory-bound formulas of this
// folder.
//
// A kernel's time comes from its own shape: tiles and waves over the real number of SMs against the tensor rate,
// operand feed, L2 and HBM traffic, whichever binds. Everything is double arithmetic in seconds; a caller rounds
// once, with Time::seconds.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "gpu/datasheet.h"

namespace railyard::gpu {

/// The resource that takes the largest part of a kernel's time.
enum class KernelLimit : std::uint8_t { tensor, feed, l2, hbm, launch };
constexpr std::array<const char*, 5> kKernelLimitNames{"tensor", "feed", "l2", "hbm", "launch"};
constexpr const char* name_of(KernelLimit limit) { return kKernelLimitNames[static_cast<std::size_t>(limit)]; }

/// What a thread block takes of an SM as long as it is resident.
struct CtaFootprint {
  std::uint32_t threads = 0;
  double registers_kib = 0;
  double shared_memory_kib = 0;
};

/// What a kernel gets of its GPU while it runs.
struct KernelShare {
  double sms = 0;        ///< SMs
  double l2_ratio = 1;   ///< of the L2 rate
  double hbm_ratio = 1;  ///< of the HBM rate that it reaches alone
};

/// Time = fixed + body + after. The body is the p-norm of three parts that run beside each other: the work of CTAs on SMs, L2
/// traffic and HBM traffic; each follows what the kernel gets of it.
struct KernelTime {
  double seconds = 0;  ///< with the whole GPU, from the end of the kernel before it in the stream, in a CUDA graph
  double fixed_seconds = 0;  ///< the part of it that no resource works: launch, prologue, pipeline fill
  double after_seconds = 0;  ///< behind the body: the reduction of a split K
  KernelLimit limit = KernelLimit::launch;
  std::uint64_t ctas = 0;                             ///< thread blocks (output tiles x splits)
  std::uint32_t waves = 0;                            ///< rounds of thread blocks over the SMs
  double tail_efficiency = 1;                         ///< ctas / (waves x SMs): what wave quantisation leaves
  std::uint32_t sms = 0;                              ///< SMs that get any work
  double flops = 0;                                   ///< useful ones, two per multiply-add
  double bytes = 0;                                   ///< HBM traffic
  double l2_bytes = 0;                                ///< traffic between L2 and the SMs
  std::uint32_t tile_m = 0, tile_n = 0, split_k = 1;  ///< GEMM only

  double longest_cta_seconds = 0;  ///< of one CTA, operands at hand
  double sm_seconds = 0;           ///< of all CTAs together; 0: equal ones, which run in whole waves
  double tail_ratio = 0;           ///< of the longest CTA, that the last ones of a full grid run alone (unequal CTAs)
  std::uint32_t ctas_per_sm = 1;   ///< that run beside each other on one SM
  CtaFootprint cta;                ///< of each; all zero: it leaves room for any other
  bool persistent = false;         ///< its CTAs stay until it ends and loop over tiles: it gives no SM away before
  double clock_ratio = 1;          ///< clock under the power limit, of the datasheet's
  double l2_seconds = 0;           ///< at the full L2 rate
  double hbm_seconds = 0;          ///< at the full HBM rate
  double overlap_exponent = 0;     ///< p; 0: infinite, the largest part alone counts

  /// The work of CTAs on so many SMs. @pre sms > 0
  double cta_seconds_on(double sms) const;
  /// What it takes from begin to end with a share that does not change; `seconds` with the whole GPU's. @pre share's > 0
  double seconds_on(const KernelShare& share) const;
  /// `seconds`, were a resource infinitely fast: tensor and feed are both the CTAs' work, launch is the fixed part.
  double seconds_without(KernelLimit resource) const;
};

constexpr double kBytesPerKib = 1024.0;
constexpr double kBytesPerMib = 1048576.0;
constexpr double kSecondsPerUs = 1e-6;

/// Ada, GA102 and their successors on cards: kernels use smaller tiles there.
inline bool small_shared_memory(const GpuDatasheet& gpu) {
  constexpr std::uint32_t kSharedMemoryKib = 128;
  return gpu.sm.shared_memory_kib < kSharedMemoryKib;
}

/// What a working set may fill of L2 before parts of it are read again.
inline double working_bytes(const GpuDatasheet& gpu) {
  return gpu.l2.working_ratio * gpu.l2.capacity_mib * kBytesPerMib;
}
/// Of `bytes` used over and over, the share that L2 no longer holds: none up to working_bytes, all from twice that on.
inline double missed_ratio(const GpuDatasheet& gpu, double bytes) {
  return std::clamp(bytes / working_bytes(gpu) - 1, 0.0, 1.0);
}

}  // namespace railyard::gpu
