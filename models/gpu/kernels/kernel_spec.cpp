#include "gpu/kernels/kernel_spec.h"

#include <algorithm>
#include <utility>

#include "gpu/kernels/device_terms.h"
#include "gpu/kernels/memory_bound.h"

namespace railyard::gpu {
namespace {

constexpr double kActivationBytes = 2;  // activations stay in 16 bits between kernels of a narrower model
constexpr double kLogitBytes = 4;       // fp32

constexpr std::uint32_t kMostRotaryThreads = 512;  // vLLM, csrc/pos_encoding_kernels.cu

KernelTime row_time(const GpuDatasheet& gpu, const KernelSpec& spec, RowWork work,
                    KernelConstants::RowInstructions instructions, double element_bytes) {
  work.rows = spec.tokens;
  work.load_bytes = spec.load_bytes;
  work.instructions = instructions.per_load + instructions.per_element * spec.load_bytes / element_bytes;
  if (spec.cold) work.cold_bytes += std::exchange(work.bytes, 0);
  return row_kernel_time(gpu, work);
}

KernelTime flat_time(const GpuDatasheet& gpu, const KernelSpec& spec, double bytes, double cold_bytes = 0) {
  return spec.cold ? memory_bound_time(gpu, 0, bytes + cold_bytes) : memory_bound_time(gpu, bytes, cold_bytes);
}

KernelTime copy_time(const GpuDatasheet& gpu, const KernelSpec& spec) {
  const double bytes = 2.0 * static_cast<double>(spec.bytes);
  const double in_flight = 2.0 * static_cast<double>(spec.threads) * spec.load_bytes;
  return memory_bound_time(gpu, spec.cold ? 0 : bytes, spec.cold ? bytes : 0, in_flight);
}

KernelTime rotary_time(const GpuDatasheet& gpu, const KernelSpec& spec, double element_bytes) {
  const double head_bytes = spec.heads.dim * element_bytes, tokens = static_cast<double>(spec.tokens);
  const double cache = 2 * tokens * spec.heads.kv * spec.heads.dim * bytes_of(spec.heads.kv_dtype);
  // A thread loads one number from each half of a head.
  const double heads = spec.heads.query + spec.heads.kv;
  RowWork work;
  work.row_bytes = heads * head_bytes / 2;
  work.most_threads = kMostRotaryThreads;
  work.bytes = 2 * tokens * heads * head_bytes;
  if (spec.kv_cache) work.cold_bytes = cache;
  return row_time(gpu, spec, work, gpu.kernels.row_instructions.rotary, element_bytes);
}

// Casts run at the rate of memory. The search of a scale reads all elements before, and may be slower than memory.
KernelTime quantize_time(const GpuDatasheet& gpu, const KernelSpec& spec, double elements) {
  KernelTime time = flat_time(gpu, spec, elements * (kActivationBytes + spec.copies * bytes_of(spec.dtype)));
  if (!spec.dynamic) return time;
  const KernelTime search = flat_time(gpu, spec, elements * kActivationBytes);
  const double search_seconds = elements / (gpu.kernel.scale_search_per_clock * gpu.sm.count * gpu.clock_hz());
  time.longest_cta_seconds = std::max(0.0, search_seconds - search.hbm_seconds - search.l2_seconds);
  time.fixed_seconds += gpu.kernel.dynamic_scale_us * kSecondsPerUs;
  time.bytes += search.bytes, time.l2_bytes += search.l2_bytes;
  time.hbm_seconds += search.hbm_seconds, time.l2_seconds += search.l2_seconds;
  time.seconds = time.seconds_on({static_cast<double>(gpu.sm.count)});
  return time;
}

KernelTime elementwise_time(const GpuDatasheet& gpu, const KernelSpec& spec) {
  const double width = static_cast<double>(spec.width), elements = static_cast<double>(spec.tokens) * width;
  const double narrow = bytes_of(spec.dtype), wide = std::max(narrow, kActivationBytes);
  RowWork work;
  work.row_bytes = width * wide;
  switch (spec.op) {
    case KernelOp::rotary: return rotary_time(gpu, spec, wide);
    case KernelOp::norm: {
      const double result = spec.result_dtype ? bytes_of(*spec.result_dtype) : wide;
      work.passes = 2;
      work.bytes = elements * ((spec.residual ? 3 : 1) * wide + result);
      return row_time(gpu, spec, work, gpu.kernels.row_instructions.norm, wide);
    }
    case KernelOp::activation:
      work.bytes = (spec.gated ? 3 : 2) * elements * wide;
      return row_time(gpu, spec, work, gpu.kernels.row_instructions.activation, wide);
    case KernelOp::softmax:
      work.passes = 3;
      work.bytes = 2 * elements * wide;
      return row_time(gpu, spec, work, gpu.kernels.row_instructions.softmax, wide);
    case KernelOp::residual_add: return flat_time(gpu, spec, 3 * elements * wide);
    case KernelOp::embedding: return flat_time(gpu, spec, elements * wide, elements * narrow);
    // One kernel widens the logits; softmax and sampling read them again.
    case KernelOp::sampling: return flat_time(gpu, spec, elements * (wide + 2 * kLogitBytes));
    case KernelOp::quantize: return quantize_time(gpu, spec, elements);
    case KernelOp::dequantize: return flat_time(gpu, spec, elements * (narrow + kActivationBytes));
    default: return copy_time(gpu, spec);
  }
}

KernelTime time_in_graph(const GpuDatasheet& gpu, const KernelSpec& spec) {
  switch (spec.op) {
    case KernelOp::gemm: return gemm_time(gpu, spec);
    case KernelOp::attention_prefill: return prefill_attention_time(gpu, spec.heads, spec.sequences, spec.causal);
    case KernelOp::attention_backward:
      return prefill_attention_time(gpu, spec.heads, spec.sequences, spec.causal, AttentionPass::backward);
    case KernelOp::attention_decode:
      return decode_attention_time(gpu, spec.heads, spec.sequences, spec.split_context, spec.kv_in_l2);
    default: return elementwise_time(gpu, spec);
  }
}

}  // namespace

KernelTime kernel_time(const GpuDatasheet& gpu, const KernelSpec& spec) {
  KernelTime time = time_in_graph(gpu, spec);
  if (time.seconds == 0) return time;
  if (spec.launch == KernelLaunch::graph) return time;
  const double host = spec.host_us * kSecondsPerUs;
  const auto launch_seconds = [&](double kernel_seconds) {
    switch (spec.launch) {
      case KernelLaunch::host: return std::max(0.0, host - kernel_seconds);
      case KernelLaunch::synchronous: return host;
      default:
        // A launch by the host takes at least as long as one by a graph.
        return std::max(0.0, gpu.kernel.stream_launch_us - gpu.kernel.launch_us) * kSecondsPerUs;
    }
  };
  for (const KernelLimit limit : {KernelLimit::tensor, KernelLimit::feed, KernelLimit::l2, KernelLimit::hbm}) {
    const double without = time.seconds_without(limit);
    time.chosen_without[static_cast<std::size_t>(limit)] = without + launch_seconds(without);
  }
  time.fixed_seconds += launch_seconds(time.seconds);
  time.seconds = time.seconds_on({static_cast<double>(gpu.sm.count)});
  return time;
}

}  // namespace railyard::gpu
