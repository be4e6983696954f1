// Multi-head latent attention.
//
// Serving, as vLLM runs it (v1/attention/backends/mla/common.py; SGLang's and TensorRT-LLM's kernels are alike):
//
//   down       products to the compressed vectors of queries and of keys and values, as one where queries are compressed;
//              their norms
//   up         the product to the queries of this rank's heads; rotary of the parts with positions; the compressed vector
//              goes to the cache
//   prompts    keys and values of this rank's heads are computed for the new tokens, and again for all cached tokens
//              before them; then attention with a key for each head. The two results (new, cached) are joined
//   decodes    queries are multiplied by the matrix of their head's keys (absorbed), so that attention runs on the
//              compressed vectors: one KV head of cached() numbers, of which the first kv_rank are the values; its result
//              is multiplied by the matrix of the head's values. These two matrices are kept widened to 16 bits
//
// A batch with both kinds runs the kernels of both.
//
// Training, as Megatron-LM runs it (core/transformer/multi_latent_attention.py): a product for each matrix; keys and values of
// all heads are computed once, and attention has a key for each head. With sequence parallelism the products down see a
// rank's own tokens, and the compressed vectors are gathered instead of the hidden state. Backward, each product has its two.
#include "transformer/layer_kernels.h"

namespace railyard::transformer {

namespace {

std::uint64_t tokens_of(const std::vector<gpu::AttentionSequence>& sequences) {
  std::uint64_t sum = 0;
  for (const gpu::AttentionSequence& s : sequences) sum += s.tokens;
  return sum;
}

}  // namespace

Segment LayerTimer::latent_down(std::uint64_t tokens, std::uint32_t kind) {
  Segment segment;
  const LatentAttention& latent = *model_.latent;
  const std::optional<WeightFormat>& format = model_.kinds[kind].attention;
  if (latent.query_rank > 0 && training_) {
    add_projection(segment, Linear::q_down, tokens, {latent.query_rank}, model_.hidden, format);
    add_projection(segment, Linear::kv_down, tokens, {latent.cached()}, model_.hidden, format);
  } else if (latent.query_rank > 0) {
    add_gemm(segment, "qkv_down", tokens, latent.query_rank + latent.cached(), model_.hidden, format);
  } else {
    add_projection(segment, Linear::kv_down, tokens, {latent.cached()}, model_.hidden, format);
  }
  if (latent.query_rank > 0) add_width_norm(segment, "q_norm", tokens, latent.query_rank);
  add_width_norm(segment, "kv_norm", tokens, latent.kv_rank);
  return segment;
}

Segment LayerTimer::latent_up(const LayerPass& pass) {
  Segment segment;
  const LatentAttention& latent = *model_.latent;
  const std::optional<WeightFormat>& format = model_.kinds[pass.kind].attention;
  const std::uint64_t tokens = pass.dense_tokens(), queries = std::uint64_t(heads_.query) * latent.query_dim();
  if (latent.query_rank > 0) add_narrowing(segment, tokens, latent.query_rank);
  add_projection(segment, Linear::q_up, tokens, {queries}, latent.query_rank > 0 ? latent.query_rank : model_.hidden,
                 format);
  if (training_) {
    add_narrowing(segment, tokens, latent.kv_rank);
    add_projection(segment, Linear::kv_up, tokens, {expanded_width()}, latent.kv_rank, format);
  }
  gpu::KernelSpec rotary;
  rotary.op = gpu::KernelOp::rotary;
  rotary.dtype = model_.dtype;
  rotary.tokens = tokens;
  rotary.heads = {heads_.query, 1, latent.rope_dim, model_.kv_dtype};
  segment.add({"rotary", KernelRole::rotary}, gpu::kernel_time(timer_.gpu(), rotary));
  if (training_) {
    add_elementwise(segment, "keys_join", static_cast<double>(tokens) * joined_numbers());
    return segment;
  }
  const double cached = static_cast<double>(tokens) * latent.cached();
  segment.add("kv_write", timer_.memory_bound(cached * (element_bytes_ + bytes_of(model_.kv_dtype))));
  return segment;
}

std::uint64_t LayerTimer::expanded_width() const {
  return std::uint64_t(heads_.query) * (model_.latent->nope_dim + model_.latent->value_dim);
}

double LayerTimer::joined_numbers() const {
  const LatentAttention& latent = *model_.latent;
  return heads_.query * (latent.nope_dim + static_cast<double>(latent.query_dim())) + latent.rope_dim;
}

gpu::AttentionHeads LayerTimer::expanded_heads() const {
  gpu::AttentionHeads heads{heads_.query, heads_.query, model_.latent->query_dim(), model_.dtype,
                            model_.latent->value_dim};
  heads.library = heads_.library;
  return heads;
}

Segment LayerTimer::latent_core(const LayerPass& pass) {
  Segment segment;
  if (training_) {
    segment.add({"attention", KernelRole::attention},
                gpu::prefill_attention_time(timer_.gpu(), expanded_heads(), pass.prefills, pass.causal));
    return segment;
  }
  if (!pass.decodes.empty()) segment.append(absorbed_attention(pass));
  if (!pass.prefills.empty()) segment.append(expanded_attention(pass));
  return segment;
}

PartBackward LayerTimer::latent_up_backward(const LayerPass& pass, Direction direction) {
  PartBackward part;
  const LatentAttention& latent = *model_.latent;
  const std::uint64_t tokens = pass.tokens(), queries = std::uint64_t(heads_.query) * latent.query_dim();
  const std::uint64_t query_input = latent.query_rank > 0 ? latent.query_rank : model_.hidden;
  if (has_dgrad(direction)) {
    add_elementwise(part.body, "keys_join_dgrad", static_cast<double>(tokens) * joined_numbers());
    add_elementwise(part.body, "rotary_dgrad",
                    2.0 * static_cast<double>(tokens) * (heads_.query + 1.0) * latent.rope_dim);
    add_narrowing(part.body, tokens, queries);
    add_narrowing(part.body, tokens, expanded_width());
  }
  part.input_dgrad = gemm_dgrad(direction, {Linear::kv_up, Product::dgrad}, tokens, {expanded_width()}, latent.kv_rank);
  part.input_dgrad.append(gemm_dgrad(direction, {Linear::q_up, Product::dgrad}, tokens, {queries}, query_input));
  part.input_wgrad = gemm_wgrad(direction, {Linear::kv_up, Product::wgrad}, tokens, {expanded_width()}, latent.kv_rank);
  part.input_wgrad.append(gemm_wgrad(direction, {Linear::q_up, Product::wgrad}, tokens, {queries}, query_input));
  return part;
}

Segment LayerTimer::latent_down_backward(std::uint64_t tokens, Direction direction) {
  Segment segment;
  const LatentAttention& latent = *model_.latent;
  const double t = static_cast<double>(tokens);
  if (has_dgrad(direction)) {
    // Gradient of the result, the input, and its gradient.
    add_elementwise(segment, "kv_norm_dgrad", 3 * t * latent.kv_rank);
    if (latent.query_rank > 0) add_elementwise(segment, "q_norm_dgrad", 3 * t * latent.query_rank);
    if (latent.query_rank > 0) add_narrowing(segment, tokens, latent.query_rank);
    add_narrowing(segment, tokens, latent.cached());
  }
  segment.append(gemm_dgrad(direction, {Linear::kv_down, Product::dgrad}, tokens, {latent.cached()}, model_.hidden));
  segment.append(gemm_wgrad(direction, {Linear::kv_down, Product::wgrad}, tokens, {latent.cached()}, model_.hidden));
  if (latent.query_rank > 0) {
    segment.append(gemm_dgrad(direction, {Linear::q_down, Product::dgrad}, tokens, {latent.query_rank}, model_.hidden));
    segment.append(gemm_wgrad(direction, {Linear::q_down, Product::wgrad}, tokens, {latent.query_rank}, model_.hidden));
  }
  // Two gradients of the layer's input become one.
  if (has_dgrad(direction))
    add_elementwise(segment, {"input_gradient_sum", KernelRole::input_gradient_sum}, 3 * t * model_.hidden);
  return segment;
}

Segment LayerTimer::absorbed_attention(const LayerPass& pass) {
  Segment segment;
  const LatentAttention& latent = *model_.latent;
  const std::uint64_t rows = pass.prefills.empty() ? pass.dense_tokens() : tokens_of(pass.decodes);
  gpu::AttentionHeads heads{heads_.query, 1, latent.cached(), model_.kv_dtype, latent.kv_rank, true};
  heads.library = heads_.library;
  add_gemm(segment, "q_absorb", rows, latent.kv_rank, latent.nope_dim, std::nullopt, heads_.query);
  segment.add({"attention_latent", KernelRole::attention},
              gpu::decode_attention_time(timer_.gpu(), heads, pass.decodes));
  add_gemm(segment, "values_up", rows, latent.value_dim, latent.kv_rank, std::nullopt, heads_.query);
  return segment;
}

Segment LayerTimer::expanded_attention(const LayerPass& pass) {
  Segment segment;
  const LatentAttention& latent = *model_.latent;
  const std::optional<WeightFormat>& format = model_.kinds[pass.kind].attention;
  const std::uint64_t tokens = tokens_of(pass.prefills);
  std::uint64_t context = 0;
  for (const gpu::AttentionSequence& s : pass.prefills) context += s.kv_start;
  add_gemm(segment, Linear::kv_up, tokens, expanded_width(), latent.kv_rank, format);
  if (context > 0) {
    segment.add("context_gather", timer_.memory_bound(static_cast<double>(context) * latent.cached() *
                                                      (bytes_of(model_.kv_dtype) + element_bytes_)));
    add_gemm(segment, "context_kv_up", context, expanded_width(), latent.kv_rank, format);
  }
  // A head's key: its own numbers, and those with positions, which all heads share.
  add_elementwise(segment, "keys_join", static_cast<double>(tokens + context) * joined_numbers());
  segment.add({"attention", KernelRole::attention},
              gpu::prefill_attention_time(timer_.gpu(), expanded_heads(), pass.prefills, pass.causal));
  if (context > 0)
    add_elementwise(segment, "attention_merge", 3.0 * static_cast<double>(tokens) * heads_.query * latent.value_dim);
  return segment;
}

}  // namespace railyard::transformer
