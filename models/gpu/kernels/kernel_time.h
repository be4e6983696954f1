// What a kernel costs on one GPU, and why: the common result of the GEMM, attention and memory-bound formulas of this
// folder.
//
// A kernel's time comes from its own shape: tiles and waves over the real number of SMs against the tensor rate,
// operand feed, L2 and HBM traffic, whichever binds. Everything is double arithmetic in seconds; a caller rounds
// once, with Time::seconds.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace railyard::gpu {

/// The resource that takes the largest part of a kernel's time.
enum class KernelLimit : std::uint8_t { tensor, feed, l2, hbm, launch };
constexpr std::array<const char*, 5> kKernelLimitNames{"tensor", "feed", "l2", "hbm", "launch"};
constexpr const char* name_of(KernelLimit limit) { return kKernelLimitNames[static_cast<std::size_t>(limit)]; }

struct KernelTime {
  double seconds = 0;           ///< from the end of the kernel before it in the stream, inside a CUDA graph
  double fixed_seconds = 0;     ///< the part of it that no resource works: launch, prologue, pipeline fill
  KernelLimit limit = KernelLimit::launch;
  std::uint64_t ctas = 0;       ///< thread blocks (output tiles x splits)
  std::uint32_t waves = 0;      ///< rounds of thread blocks over the SMs
  double tail_efficiency = 1;   ///< ctas / (waves x SMs): what wave quantisation leaves
  std::uint32_t sms = 0;        ///< SMs that get any work
  double flops = 0;             ///< useful ones, two per multiply-add
  double bytes = 0;             ///< HBM traffic
  std::uint32_t tile_m = 0, tile_n = 0, split_k = 1;  ///< GEMM only
};

constexpr double kBytesPerMib = 1048576.0;
constexpr double kSecondsPerUs = 1e-6;
constexpr double kL2WorkingRatio = 0.6;  ///< of L2, that a working set may fill before parts of it are read again

}  // namespace railyard::gpu
