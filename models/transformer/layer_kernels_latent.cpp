// Multi-head latent attention in serving, as vLLM runs it (v1/attention/backends/mla/common.py; SGLang's and TensorRT-LLM's
// kernels are alike).
//
//   before     products to the compressed vectors of queries and of keys and values, as one where queries are compressed;
//              their norms; the product to the queries of this rank's heads; rotary of the parts with positions; the
//              compressed vector goes to the cache
//   prompts    keys and values of this rank's heads are computed for the new tokens, and again for all cached tokens
//              before them; then attention with a key for each head. The two results (new, cached) are joined
//   decodes    queries are multiplied by the matrix of their head's keys (absorbed), so that attention runs on the
//              compressed vectors: one KV head of cached() numbers, of which the first kv_rank are the values; its result
//              is multiplied by the matrix of the head's values. These two matrices are kept widened to 16 bits
//
// A batch with both kinds runs the kernels of both.
#include "transformer/layer_kernels.h"

namespace railyard::transformer {

namespace {

std::uint64_t tokens_of(const std::vector<gpu::AttentionSequence>& sequences) {
  std::uint64_t sum = 0;
  for (const gpu::AttentionSequence& s : sequences) sum += s.tokens;
  return sum;
}

}  // namespace

Segment LayerTimer::latent_input(const LayerPass& pass) {
  Segment segment;
  const LatentAttention& latent = *model_.latent;
  const std::optional<WeightFormat>& format = model_.kinds[pass.kind].attention;
  const std::uint64_t tokens = pass.dense_tokens(), queries = std::uint64_t(heads_.query) * latent.query_dim();
  if (latent.query_rank > 0) {
    add_gemm(segment, "qkv_down", tokens, latent.query_rank + latent.cached(), model_.hidden, format);
    add_width_norm(segment, "q_norm", tokens, latent.query_rank);
    add_gemm(segment, Linear::q_up, tokens, queries, latent.query_rank, format);
  } else {
    add_gemm(segment, Linear::q_up, tokens, queries, model_.hidden, format);
    add_gemm(segment, Linear::kv_down, tokens, latent.cached(), model_.hidden, format);
  }
  add_width_norm(segment, "kv_norm", tokens, latent.kv_rank);
  gpu::KernelSpec rotary;
  rotary.op = gpu::KernelOp::rotary;
  rotary.dtype = model_.dtype;
  rotary.tokens = tokens;
  rotary.heads = {heads_.query, 1, latent.rope_dim, model_.kv_dtype};
  segment.add({"rotary", KernelRole::rotary}, gpu::kernel_time(timer_.gpu(), rotary));
  const double cached = static_cast<double>(tokens) * latent.cached();
  segment.add("kv_write", timer_.memory_bound(cached * (element_bytes_ + bytes_of(model_.kv_dtype))));
  return segment;
}

Segment LayerTimer::latent_core(const LayerPass& pass) {
  Segment segment;
  if (!pass.decodes.empty()) segment.append(absorbed_attention(pass));
  if (!pass.prefills.empty()) segment.append(expanded_attention(pass));
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
  const std::uint64_t expanded = std::uint64_t(heads_.query) * (latent.nope_dim + latent.value_dim);
  add_gemm(segment, Linear::kv_up, tokens, expanded, latent.kv_rank, format);
  if (context > 0) {
    segment.add("context_gather", timer_.memory_bound(static_cast<double>(context) * latent.cached() *
                                                      (bytes_of(model_.kv_dtype) + element_bytes_)));
    add_gemm(segment, "context_kv_up", context, expanded, latent.kv_rank, format);
  }
  // A head's key: its own numbers, and those with positions, which all heads share.
  add_elementwise(segment, "keys_join",
                  static_cast<double>(tokens + context) *
                      (heads_.query * (latent.nope_dim + double(latent.query_dim())) + latent.rope_dim));
  gpu::AttentionHeads heads{heads_.query, heads_.query, latent.query_dim(), model_.dtype, latent.value_dim};
  heads.library = heads_.library;
  segment.add({"attention", KernelRole::attention},
              gpu::prefill_attention_time(timer_.gpu(), heads, pass.prefills, pass.causal));
  if (context > 0)
    add_elementwise(segment, "attention_merge", 3.0 * static_cast<double>(tokens) * heads_.query * latent.value_dim);
  return segment;
}

}  // namespace railyard::transformer
