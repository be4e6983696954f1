#include "gpu/kernels/kernel_timer.h"

#include "gpu/datasheet.h"

namespace railyard::gpu {

KernelTimer::KernelTimer(const GpuDatasheet& gpu) : gpu_(std::make_shared<const GpuDatasheet>(gpu)) {}

std::size_t KernelTimer::ShapeHash::operator()(const GemmShape& shape) const noexcept {
  constexpr std::uint64_t kOddMultiplier = 0x9e3779b97f4a7c15ull;  // 2^64 / golden ratio
  std::uint64_t hash = 0;
  for (const std::uint64_t value :
       {shape.m, shape.n, shape.k, static_cast<std::uint64_t>(shape.dtype), static_cast<std::uint64_t>(shape.groups),
        static_cast<std::uint64_t>(shape.weight_copies), static_cast<std::uint64_t>(shape.most_sms),
        static_cast<std::uint64_t>(shape.accumulate)})
    hash = (hash ^ value) * kOddMultiplier, hash ^= hash >> 32;
  return static_cast<std::size_t>(hash);
}

const KernelTime& KernelTimer::gemm(const GemmShape& shape) {
  const auto found = gemms_.find(shape);
  if (found != gemms_.end()) return found->second;
  return gemms_.emplace(shape, gemm_time(*gpu_, shape)).first->second;
}

}  // namespace railyard::gpu
