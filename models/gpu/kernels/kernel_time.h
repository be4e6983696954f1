// The time of a kernel on one GPU, and its limit: the common result of the GEMM, attention and memory-bound formulas of
// this folder.
//
// The time follows from the shape of the kernel: tiles and waves on the real number of SMs, limited by tensor rate,
// operand feed, L2 traffic or HBM traffic. All times are doubles in seconds; a caller rounds once, with Time::seconds.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace railyard::gpu {

/// The resource that takes the largest part of a kernel's time.
enum class KernelLimit : std::uint8_t { tensor, feed, l2, hbm, launch };
constexpr std::array<const char*, 5> kKernelLimitNames{"tensor", "feed", "l2", "hbm", "launch"};
constexpr const char* name_of(KernelLimit limit) { return kKernelLimitNames[static_cast<std::size_t>(limit)]; }

/// Resources of an SM that a resident thread block occupies.
struct CtaFootprint {
  std::uint32_t threads = 0;
  double registers_kib = 0;
  double shared_memory_kib = 0;
};

/// Share of the GPU that a running kernel has.
struct KernelShare {
  double sms = 0;        ///< number of SMs
  double l2_ratio = 1;   ///< share of the L2 rate
  double hbm_ratio = 1;  ///< share of the HBM rate that the kernel reaches alone

  bool operator==(const KernelShare& other) const {
    return sms == other.sms && l2_ratio == other.l2_ratio && hbm_ratio == other.hbm_ratio;
  }
  bool operator!=(const KernelShare& other) const { return !(*this == other); }
};

/// Time = fixed + body + starts + after. The body is the p-norm of three overlapping parts: the work of CTAs on SMs, L2
/// traffic and HBM traffic. Each part depends on the kernel's share of that resource.
struct KernelTime {
  double seconds = 0;        ///< with the whole GPU, in a CUDA graph, from the end of the previous kernel in the stream
  double fixed_seconds = 0;  ///< part of `seconds` in which no resource works: launch, prologue, pipeline fill
  double after_seconds = 0;  ///< part of `seconds` after the body: parts of a split K or context are joined
  KernelLimit limit = KernelLimit::launch;
  std::uint64_t ctas = 0;                             ///< thread blocks (output tiles x splits)
  std::uint32_t waves = 0;                            ///< rounds of thread blocks over the SMs
  double tail_efficiency = 1;                         ///< ctas / (waves x SMs): efficiency after wave quantisation
  std::uint32_t sms = 0;                              ///< SMs that get any work
  double flops = 0;                                   ///< useful FLOPs, two per multiply-add
  double bytes = 0;                                   ///< HBM traffic
  double l2_bytes = 0;                                ///< traffic between L2 and the SMs
  double tensor_j = 0;                                ///< joules of its FLOPs, at the highest clock (gpu/energy.h)
  std::uint32_t tile_m = 0, tile_n = 0, split_k = 1;  ///< GEMM only

  double longest_cta_seconds = 0;  ///< time of the longest CTA, without waiting for operands
  double sm_seconds = 0;           ///< total of all CTAs; 0: the CTAs are equal and run in whole waves
  /// Start-up time of each CTA, which nothing hides; for each round of CTAs over the SMs, part of a round or whole. A slot
  /// of an SM starts the next CTA and reads nothing until its first data is there.
  double cta_start_seconds = 0;
  /// Unequal CTAs: share of the longest CTA in which the last CTAs run alone, if there are more than run at once. They
  /// start in the order of the grid, so one of the longest may be among the last.
  double tail_ratio = 0;
  std::uint32_t ctas_per_sm = 1;  ///< CTAs that run on one SM at the same time
  CtaFootprint cta;               ///< footprint of each CTA; all zero: fits beside any other kernel
  bool persistent = false;        ///< CTAs loop over tiles until the kernel ends, so it gives up no SM earlier
  std::uint32_t most_sms = 0;     ///< the kernel was launched for at most this number of SMs; 0: for all
  double clock_ratio = 1;         ///< clock under the power limit, relative to the datasheet's
  double l2_seconds = 0;          ///< time of the L2 traffic at the full L2 rate
  double hbm_seconds = 0;         ///< time of the HBM traffic at the full HBM rate
  double overlap_exponent = 0;    ///< p of the p-norm; 0: infinite, only the largest part counts
  /// `seconds` if a resource were infinitely fast, where this follows from more than the parts of this kernel: another
  /// kernel would be chosen, or the host sets the pace. By KernelLimit; 0: it follows from the parts.
  std::array<double, kKernelLimitNames.size()> chosen_without{};

  /// Time of the CTAs' work on `sms` SMs. @pre sms > 0
  double cta_seconds_on(double sms) const;
  /// Time of all starts of CTAs on `sms` SMs. @pre sms > 0
  double starts_seconds_on(double sms) const;
  /// Time of the whole kernel with a constant share; equals `seconds` with the whole GPU. @pre all shares > 0
  double seconds_on(const KernelShare& share) const;
  /// `seconds` if a resource were infinitely fast: chosen_without, or this kernel with other parts. Tensor and feed both
  /// mean the CTAs' work; launch means the fixed part.
  double seconds_without(KernelLimit resource) const;
  /// The kernel with another time. All parts keep their proportions, so the kernel reacts to its share of a GPU as
  /// before.
  KernelTime taking(double time) const;
};

/// Kernels that follow each other, as one kernel. It reacts to its share of a GPU as the longest of them does. @pre there
/// is one
KernelTime joined(const std::vector<KernelTime>& kernels);

}  // namespace railyard::gpu
