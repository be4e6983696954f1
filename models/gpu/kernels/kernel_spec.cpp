#include "gpu/kernels/kernel_spec.h"

#include <algorithm>

#include "gpu/kernels/gemm.h"
#include "gpu/kernels/memory_bound.h"

namespace railyard::gpu {
namespace {

constexpr double kActivationBytes = 2;  // activations stay in 16 bits between kernels of a narrower model
constexpr double kLogitBytes = 4;       // fp32

/// What neighbouring kernels leave in L2 or find there, and what comes from HBM or goes there in any case.
struct Traffic {
  double warm = 0, cold = 0;
};

Traffic traffic_of(const KernelSpec& spec) {
  const double elements = static_cast<double>(spec.tokens) * static_cast<double>(spec.width);
  const double wide = std::max(bytes_of(spec.dtype), kActivationBytes);
  const double narrow = bytes_of(spec.dtype);
  switch (spec.op) {
    case KernelOp::rotary: {
      const double tokens = static_cast<double>(spec.tokens) * spec.heads.dim;
      const double cache = spec.kv_cache ? 2 * tokens * spec.heads.kv * bytes_of(spec.heads.kv_dtype) : 0;
      return {2 * tokens * (spec.heads.query + spec.heads.kv) * wide, cache};
    }
    case KernelOp::norm: return {(spec.residual ? 4 : 2) * elements * wide, 0};
    case KernelOp::activation: return {(spec.gated ? 3 : 2) * elements * wide, 0};
    case KernelOp::residual_add: return {3 * elements * wide, 0};
    case KernelOp::softmax: return {2 * elements * wide, 0};
    case KernelOp::embedding: return {elements * wide, elements * narrow};
    case KernelOp::sampling: return {elements * (wide + 2 * kLogitBytes), 0};  // widened, then read once more
    case KernelOp::quantize: return {elements * ((spec.dynamic ? 2 : 1) * kActivationBytes + narrow), 0};
    case KernelOp::dequantize: return {elements * (narrow + kActivationBytes), 0};
    case KernelOp::copy: return {2.0 * static_cast<double>(spec.bytes), 0};
    default: return {};
  }
}

KernelTime time_in_graph(const GpuDatasheet& gpu, const KernelSpec& spec) {
  switch (spec.op) {
    case KernelOp::gemm: return gemm_time(gpu, {spec.m, spec.n, spec.k, spec.dtype, spec.groups});
    case KernelOp::attention_prefill:
    case KernelOp::attention_backward: {
      KernelTime all;
      for (const AttentionSequence& s : spec.sequences) {
        const KernelTime one = prefill_attention_time(gpu, spec.heads, s.tokens, s.kv_start);
        if (one.seconds > all.seconds) all = one;
      }
      return all;
    }
    case KernelOp::attention_decode: {
      std::vector<std::uint64_t> context;
      for (const AttentionSequence& s : spec.sequences) context.push_back(s.kv_start + s.tokens);
      return decode_attention_time(gpu, spec.heads, context);
    }
    default: {
      const Traffic traffic = traffic_of(spec);
      return spec.cold ? memory_bound_time(gpu, 0, traffic.warm + traffic.cold)
                       : memory_bound_time(gpu, traffic.warm, traffic.cold);
    }
  }
}

}  // namespace

KernelTime kernel_time(const GpuDatasheet& gpu, const KernelSpec& spec) { return time_in_graph(gpu, spec); }

}  // namespace railyard::gpu
