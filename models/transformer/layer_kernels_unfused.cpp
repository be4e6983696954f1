// Attention as frameworks computed it before fused kernels: the scores of all keys go to memory (Megatron-LM,
// CoreAttention). Products are batched over heads and sequences.
// Masked scores are multiplied like all others, so the FLOPs are about twice those of causal attention. Query heads that
// share keys and values multiply with copies of them.
//
//   forward    scores = Q K^T, softmax, dropout, output = P V
//   backward   gradients of V and P, of dropout, of softmax, of Q and K
//
// One kernel scales, masks and finds the softmax, with a row in the registers of a warp. Of a causal row it reads the
// scores up to the diagonal, half of them on average; it writes all (scaled_upper_triang_masked_softmax.h). For shapes
// that it does not take (softmax_is_fused()), there is a kernel for each operator.
#include "transformer/layer_kernels.h"

namespace railyard::transformer {

namespace {

/// Products of each kind in a pass: one for each query head of each sequence.
struct Scores {
  std::uint32_t products;
  std::uint64_t queries, keys;  ///< of one product

  double numbers() const { return products * static_cast<double>(queries) * static_cast<double>(keys); }
  bool softmax_is_fused() const { return transformer::softmax_is_fused(products, queries, keys); }

  Scores(const LayerPass& pass, const gpu::AttentionHeads& heads)
      : products(static_cast<std::uint32_t>(pass.prefills.size()) * heads.query),
        queries(pass.prefills.front().tokens),
        keys(pass.prefills.front().kv_start + queries) {}
};

// Of a causal row the fused softmax reads a half on average.
constexpr double kReadRatio = 0.5;

}  // namespace

void LayerTimer::add_scores(Segment& segment, const KernelId& id, const LayerPass& pass, double numbers,
                            double mask_bytes) {
  const double scores = Scores(pass, heads_).numbers();
  segment.add(id, timer_.memory_bound(scores * (numbers * element_bytes_ + mask_bytes)));
}

Segment LayerTimer::unfused_attention(const LayerPass& pass) {
  Segment segment;
  const Scores s(pass, heads_);
  add_gemm(segment, "scores", s.queries, s.keys, heads_.dim, std::nullopt, s.products);
  if (s.softmax_is_fused())
    add_scores(segment, "softmax", pass, 1 + kReadRatio, 0);
  else
    add_softmax_operators(segment, s.numbers());
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
  if (s.softmax_is_fused())
    add_scores(segment, "softmax_dgrad", pass, 1 + 2 * kReadRatio, 0);  // reads the gradient and the result
  else
    add_softmax_operators(segment, s.numbers(), true);
  add_gemm(segment, "queries_dgrad", s.queries, heads_.dim, s.keys, std::nullopt, s.products);
  add_gemm(segment, "keys_dgrad", s.keys, heads_.dim, s.queries, std::nullopt, s.products);
  return segment;
}

}  // namespace railyard::transformer
