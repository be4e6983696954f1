// What several formulas of this folder derive from a datasheet, and their units. Apart from kernel_time.h, so that who only reads
// times of kernels does not depend on the datasheet's fields.
#pragma once

#include <algorithm>
#include <cstdint>

#include "gpu/datasheet.h"

namespace railyard::gpu {

constexpr double kBytesPerKib = 1024.0;
constexpr double kBytesPerMib = 1048576.0;
constexpr double kSecondsPerUs = 1e-6;

/// True for Ada, GA102 and their successors on cards: their kernels use smaller tiles.
inline bool small_shared_memory(const GpuDatasheet& gpu) {
  constexpr std::uint32_t kSharedMemoryKib = 128;
  return gpu.sm.shared_memory_kib < kSharedMemoryKib;
}

/// True for Hopper and B200: tensor instructions run beside other instructions.
inline bool asynchronous_tensor_cores(const GpuDatasheet& gpu) {
  return !small_shared_memory(gpu) && facts_of(gpu.architecture).has_tma;
}

/// True for B200 and its successors, not for cards of Blackwell.
inline bool tensor_memory(const GpuDatasheet& gpu) {
  return !small_shared_memory(gpu) && facts_of(gpu.architecture).has_tensor_memory;
}

/// Size of a working set in L2 above which parts of it are read again.
inline double working_bytes(const GpuDatasheet& gpu) {
  return gpu.l2.working_ratio * gpu.l2.capacity_mib * kBytesPerMib;
}
/// Share of repeatedly used `bytes` that misses in L2: 0 up to working_bytes, 1 from twice that on.
inline double missed_ratio(const GpuDatasheet& gpu, double bytes) {
  return std::clamp(bytes / working_bytes(gpu) - 1, 0.0, 1.0);
}

/// Joules of tensor FLOPs at the highest clock; 0 if the constants are not known.
inline double tensor_joules(const GpuDatasheet& gpu, DataType type, double flops) {
  constexpr double kJoulesPerPj = 1e-12;
  const auto& by_type = gpu.energy.tensor_pj_per_flop;
  const double own = by_type[static_cast<std::size_t>(type)];
  return flops * kJoulesPerPj * (own > 0 ? own : by_type[static_cast<std::size_t>(DataType::bf16)]);
}

}  // namespace railyard::gpu
