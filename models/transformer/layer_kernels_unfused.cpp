// Attention as frameworks computed it before fused kernels: the scores of all keys go to memory (Megatron-LM,
// CoreAttention). Products are batched over heads and sequences. The kernel of the softmax also scales and masks.
// Masked scores are multiplied like all others, so the FLOPs are about twice those of causal attention. Query heads that
// share keys and values multiply with copies of them.
//
//   forward    scores = Q K^T, softmax, dropout, output = P V
//   backward   gradients of V and P, of dropout, of softmax, of Q and K
#include "transformer/layer_kernels.h"

namespace railyard::transformer {

namespace {

/// Products of each kind in a pass: one for each query head of each sequence.
struct Scores {
  std::uint32_t products;
  std::uint64_t queries, keys;  ///< of one product

  Scores(const LayerPass& pass, const gpu::AttentionHeads& heads)
      : products(static_cast<std::uint32_t>(pass.prefills.size()) * heads.query),
        queries(pass.prefills.front().tokens),
        keys(pass.prefills.front().kv_start + queries) {}
};

}  // namespace

void LayerTimer::add_scores(Segment& segment, const char* name, const LayerPass& pass, double numbers,
                            double mask_bytes) {
  const Scores s(pass, heads_);
  const double scores = s.products * static_cast<double>(s.queries) * static_cast<double>(s.keys);
  segment.add(name, timer_.memory_bound(scores * (numbers * element_bytes_ + mask_bytes)));
}

Segment LayerTimer::unfused_attention(const LayerPass& pass) {
  Segment segment;
  const Scores s(pass, heads_);
  add_gemm(segment, "scores", s.queries, s.keys, heads_.dim, std::nullopt, s.products);
  add_rows(segment, "softmax", gpu::KernelOp::softmax, s.products * s.queries, s.keys);
  if (form().dropout) add_scores(segment, "softmax_dropout", pass, 2, kMaskBytes);
  add_gemm(segment, "values", s.queries, heads_.dim, s.keys, std::nullopt, s.products);
  return segment;
}

Segment LayerTimer::unfused_attention_backward(const LayerPass& pass) {
  Segment segment;
  const Scores s(pass, heads_);
  add_gemm(segment, "values_dgrad", s.keys, heads_.dim, s.queries, std::nullopt, s.products);
  add_gemm(segment, "probabilities_dgrad", s.queries, s.keys, heads_.dim, std::nullopt, s.products);
  if (form().dropout) add_scores(segment, "softmax_dropout_dgrad", pass, 2, kMaskBytes);
  add_scores(segment, "softmax_dgrad", pass, 3, 0);  // reads the gradient and the result, writes the gradient
  add_gemm(segment, "queries_dgrad", s.queries, heads_.dim, s.keys, std::nullopt, s.products);
  add_gemm(segment, "keys_dgrad", s.keys, heads_.dim, s.queries, std::nullopt, s.products);
  return segment;
}

}  // namespace railyard::transformer
