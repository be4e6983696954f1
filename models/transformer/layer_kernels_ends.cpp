// The kernels before the first layer and after the last layer.
#include "transformer/layer_kernels.h"

namespace railyard::transformer {

Segment LayerTimer::embedding(std::uint64_t tokens) {
  Segment segment;
  add_rows(segment, Linear::embedding, gpu::KernelOp::embedding, tokens, model_.hidden);
  return measured(segment, static_cast<double>(tokens));
}

Segment LayerTimer::head(std::uint64_t rows) {
  Segment segment;
  add_norm(segment, rows);
  add_gemm(segment, Linear::head, rows, vocab_, model_.hidden, model_.tied_embeddings ? std::nullopt : model_.head);
  add_rows(segment, {"sampling", KernelRole::sampling}, gpu::KernelOp::sampling, rows, vocab_);
  return measured(segment, static_cast<double>(rows), true);
}

// -- training

Segment LayerTimer::positions(std::uint64_t tokens) {
  Segment segment;
  if (model_.positions > 0) add_rows(segment, "positions", gpu::KernelOp::residual_add, tokens, model_.hidden);
  return segment;
}

Segment LayerTimer::embedding_backward(std::uint64_t tokens) {
  Segment segment;
  const double elements = static_cast<double>(tokens) * model_.hidden;
  // Reads the gradients of all tokens. Adds those of its rows to the rows' gradients in HBM.
  const auto add = [&](const KernelId& id, double own_ratio) {
    segment.add(id, timer_.memory_bound(elements * element_bytes_, 2 * own_ratio * elements * kGradientBytes));
  };
  if (model_.positions > 0) add("positions_wgrad", 1);
  add({Linear::embedding, Product::wgrad}, static_cast<double>(vocab_) / model_.vocab);
  if (form().gradient_sum != GradientSum::kernel) return segment;
  // PyTorch writes a gradient of all rows, most of them zero.
  const double rows = static_cast<double>(vocab_) * model_.hidden;
  segment.add("embedding_zeros", timer_.memory_bound(0, rows * element_bytes_));
  add_gradient_sum(segment, rows);
  return segment;
}

void LayerTimer::add_logits(Segment& segment, const KernelId& id, std::uint64_t tokens, double bytes_per_logit) {
  segment.add(id, timer_.memory_bound(static_cast<double>(tokens) * static_cast<double>(vocab_) * bytes_per_logit));
}

Segment LayerTimer::logits(std::uint64_t tokens) {
  Segment segment;
  add_gemm(segment, Linear::head, tokens, vocab_, model_.hidden);
  add_logits(segment, "logits_maximum", tokens, element_bytes_ + kLogitBytes);  // widens the logits
  return segment;
}

Segment LayerTimer::logit_exponentials(std::uint64_t tokens) {
  Segment segment;
  add_logits(segment, "logits_exponentials", tokens, 2 * kLogitBytes);
  return segment;
}

Segment LayerTimer::loss(std::uint64_t tokens) {
  Segment segment;
  add_logits(segment, "loss", tokens, 2 * kLogitBytes);  // writes the softmax for the backward pass
  return segment;
}

PartBackward LayerTimer::head_backward(std::uint64_t tokens, Direction direction) {
  PartBackward part;
  if (has_dgrad(direction)) add_logits(part.body, "loss_dgrad", tokens, kLogitBytes + element_bytes_);
  part.input_dgrad =
      gemm_dgrad(direction, {Linear::head, Product::dgrad}, tokens, {vocab_}, model_.hidden, 1, Operands::wide);
  part.input_wgrad =
      gemm_wgrad(direction, {Linear::head, Product::wgrad}, tokens, {vocab_}, model_.hidden, 1, Operands::wide);
  if (model_.head_bias)
    add_bias_wgrad(part.input_wgrad, direction, "lm_head_bias_wgrad",
                   static_cast<double>(tokens) * static_cast<double>(vocab_));
  return part;
}

}  // namespace railyard::transformer
