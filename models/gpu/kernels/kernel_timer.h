// The kernel times of one GPU datasheet, with a cache: identical layers, ranks and chunks have the same shapes, and the
// search over GEMM tiles runs once per shape.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "gpu/kernels/attention.h"
#include "gpu/kernels/gemm.h"
#include "gpu/kernels/memory_bound.h"

namespace railyard::gpu {

struct GpuDatasheet;

class KernelTimer {
 public:
  explicit KernelTimer(const GpuDatasheet& gpu);

  const GpuDatasheet& gpu() const { return *gpu_; }
  const KernelTime& gemm(const GemmShape& shape);
  KernelTime prefill_attention(const AttentionHeads& heads, std::uint64_t tokens, std::uint64_t kv_start) const {
    return prefill_attention_time(*gpu_, heads, {{tokens, kv_start}});
  }
  KernelTime decode_attention(const AttentionHeads& heads, const std::vector<std::uint64_t>& context) const {
    return decode_attention_time(*gpu_, heads, one_token_each(context));
  }
  KernelTime memory_bound(double bytes, double cold_bytes = 0) const {
    return memory_bound_time(*gpu_, bytes, cold_bytes);
  }

  std::size_t remembered() const { return gemms_.size(); }

 private:
  struct ShapeHash {
    std::size_t operator()(const GemmShape& shape) const noexcept;
  };

  std::shared_ptr<const GpuDatasheet> gpu_;
  std::unordered_map<GemmShape, KernelTime, ShapeHash> gemms_;
};

}  // namespace railyard::gpu
