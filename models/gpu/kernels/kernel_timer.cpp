#include "gpu/kernels/kernel_timer.h"

#include <functional>

#include "gpu/datasheet.h"

namespace railyard::gpu {

KernelTimer::KernelTimer(const GpuDatasheet& gpu) : gpu_(std::make_shared<const GpuDatasheet>(gpu)) {}

std::size_t KernelTimer::ShapeHash::operator()(const GemmShape& shape) const noexcept {
  constexpr std::uint64_t kOddMultiplier = 0x9e3779b97f4a7c15ull;  // 2^64 / golden ratio
  std::uint64_t hash = 0;
  const auto word = [](auto value) { return static_cast<std::uint64_t>(value); };
  const std::uint64_t kind = word(shape.dtype) | word(shape.result_dtype ? word(*shape.result_dtype) + 1 : 0) << 8 |
                             word(shape.gemm_library) << 16 | word(shape.accumulate) << 24 |
                             word(shape.l2_flushed) << 25 | word(shape.steady) << 26 | word(shape.weight_copies) << 32;
  for (const std::uint64_t value : {shape.m, shape.n, shape.k, kind, word(shape.groups) << 32 | shape.most_sms,
                                    word(std::hash<double>()(shape.weight_bytes))})
    hash = (hash ^ value) * kOddMultiplier, hash ^= hash >> 32;
  return static_cast<std::size_t>(hash);
}

const KernelTime& KernelTimer::gemm(const GemmShape& shape) {
  const auto found = gemms_.find(shape);
  if (found != gemms_.end()) return found->second;
  return gemms_.emplace(shape, gemm_time(*gpu_, shape)).first->second;
}

}  // namespace railyard::gpu
