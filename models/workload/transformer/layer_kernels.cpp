#include "workload/transformer/layer_kernels.h"

#include <algorithm>
#include <cmath>

#include "workload/transformer/parameters.h"

namespace railyard::workload {
namespace {

constexpr double kLogitBytes = 4;  // fp32
constexpr double kMinimumActivationBytes = 2;  // activations stay in 16 bits between kernels of a narrower model

}  // namespace

void Segment::add(const char* name, const gpu::KernelTime& time) {
  kernels.push_back({name, time});
  seconds += time.seconds;
  flops += time.flops;
  bytes += time.bytes;
}

LayerTimer::LayerTimer(const ModelShape& model, std::uint32_t tp, gpu::KernelTimer& timer)
    : model_(model),
      timer_(timer),
      heads_{model.heads / tp, rank_kv_heads(model, tp), model.head_dim, model.kv_dtype},
      ffn_(ceil_div(model.ffn, tp)),
      vocab_(ceil_div(model.vocab, tp)),
      element_bytes_(std::max(bytes_of(model.dtype), kMinimumActivationBytes)) {}

void LayerTimer::add_gemm(Segment& segment, const char* name, std::uint64_t m, std::uint64_t n, std::uint64_t k,
                          std::uint32_t groups) {
  segment.add(name, timer_.gemm({m, n, k, model_.dtype, groups}));
}

void LayerTimer::add_elementwise(Segment& segment, const char* name, double elements, double cold_bytes) {
  segment.add(name, timer_.memory_bound(elements * element_bytes_, cold_bytes));
}

void LayerTimer::add_norm(Segment& segment, std::uint64_t tokens) {
  constexpr double kTensors = 4;  // reads the input and the residual, writes the residual and the normed input
  add_elementwise(segment, "rmsnorm", kTensors * static_cast<double>(tokens) * model_.hidden);
}

void LayerTimer::add_attention_inputs(Segment& segment, std::uint64_t tokens) {
  const std::uint64_t width = (heads_.query + 2ull * heads_.kv) * heads_.dim;
  const double t = static_cast<double>(tokens);
  add_norm(segment, tokens);
  add_gemm(segment, "qkv", tokens, width, model_.hidden);
  const double rotated = t * (static_cast<double>(width) + static_cast<double>(heads_.query) * heads_.dim);
  add_elementwise(segment, "rotary", rotated, t * 2 * heads_.kv * heads_.dim * bytes_of(heads_.kv_dtype));
}

void LayerTimer::add_output_projection(Segment& segment, std::uint64_t tokens) {
  add_gemm(segment, "o_proj", tokens, model_.hidden, std::uint64_t(heads_.query) * heads_.dim);
}

Segment LayerTimer::prefill_attention(std::uint64_t tokens, std::uint64_t kv_start) {
  Segment segment;
  add_attention_inputs(segment, tokens);
  segment.add("attention", timer_.prefill_attention(heads_, tokens, kv_start));
  add_output_projection(segment, tokens);
  return segment;
}

Segment LayerTimer::decode_attention(const std::vector<std::uint64_t>& context) {
  Segment segment;
  add_attention_inputs(segment, context.size());
  segment.add("attention", timer_.decode_attention(heads_, context));
  add_output_projection(segment, context.size());
  return segment;
}

Segment LayerTimer::mlp(std::uint64_t tokens) {
  Segment segment;
  add_norm(segment, tokens);
  if (model_.experts > 0) {
    add_experts(segment, tokens);
    return segment;
  }
  const std::uint64_t projections = model_.gated_mlp ? 2 : 1;
  add_gemm(segment, "gate_up", tokens, projections * ffn_, model_.hidden);
  add_elementwise(segment, "activation", static_cast<double>(tokens) * static_cast<double>((projections + 1) * ffn_));
  add_gemm(segment, "down", tokens, model_.hidden, ffn_);
  return segment;
}

std::uint32_t LayerTimer::active_experts(std::uint64_t tokens) const {
  if (model_.experts == 0) return 0;
  const double chosen = static_cast<double>(model_.experts_per_token) / model_.experts;
  const double missed = std::pow(1.0 - chosen, static_cast<double>(tokens));
  return static_cast<std::uint32_t>(std::lround(model_.experts * (1.0 - missed)));
}

void LayerTimer::add_experts(Segment& segment, std::uint64_t tokens) {
  const std::uint64_t routed = tokens * model_.experts_per_token;
  const std::uint32_t experts = active_experts(tokens);
  const std::uint64_t rows = ceil_div(routed, experts);
  const std::uint64_t projections = model_.gated_mlp ? 2 : 1;
  const double hidden_rows = static_cast<double>(tokens + routed) * model_.hidden;

  add_gemm(segment, "router", tokens, model_.experts, model_.hidden);
  add_elementwise(segment, "top_k", static_cast<double>(tokens) * (model_.experts + 2.0 * model_.experts_per_token));
  add_elementwise(segment, "permute", hidden_rows);
  add_gemm(segment, "gate_up", rows, projections * ffn_, model_.hidden, experts);
  add_elementwise(segment, "activation", static_cast<double>(routed) * static_cast<double>((projections + 1) * ffn_));
  add_gemm(segment, "down", rows, model_.hidden, ffn_, experts);
  add_elementwise(segment, "combine", hidden_rows);
}

Segment LayerTimer::embedding(std::uint64_t tokens) {
  Segment segment;
  const double elements = static_cast<double>(tokens) * model_.hidden;
  add_elementwise(segment, "embedding", elements, elements * bytes_of(model_.dtype));
  return segment;
}

Segment LayerTimer::head(std::uint64_t rows) {
  Segment segment;
  add_norm(segment, rows);
  add_gemm(segment, "lm_head", rows, vocab_, model_.hidden);
  // Logits widened to fp32, then softmax and choice read them once more.
  const double logits = static_cast<double>(rows) * static_cast<double>(vocab_);
  segment.add("sampling", timer_.memory_bound(logits * (element_bytes_ + 2 * kLogitBytes), 0));
  return segment;
}

}  // namespace railyard::workload
