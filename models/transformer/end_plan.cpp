#include "transformer/end_plan.h"

#include "transformer/step_list.h"

namespace railyard::transformer {

namespace {

constexpr Bytes kLossBytes = 4;  // fp32

}  // namespace

std::vector<LayerStep> plan_embedding(const ModelShape& model, LayerTimer& timer, std::uint64_t tokens,
                                      const LayerSplit& split, Direction direction) {
  constexpr LayerPart part = LayerPart::embedding;
  StepList steps(model, tokens, split, &timer);
  if (direction == Direction::forward) {
    steps.add(part, timer.embedding(tokens));
    model.positions > 0 ? steps.all_reduce(part) : steps.reduce(part);
    steps.add(part, timer.positions(tokens));
    steps.add(part, timer.norm(part, steps.divided_tokens()));
    steps.add(part, timer.dropout(part, steps.divided_tokens()));
    return steps.take();
  }
  if (timer.form().adapters) return {};  // frozen, and nothing before it needs gradients
  steps.add(part, timer.dropout_backward(part, steps.divided_tokens(), direction));
  if (has_dgrad(direction)) {
    steps.add(part, timer.norm_backward(part, steps.divided_tokens()));
    steps.gather(part);
  }
  if (has_wgrad(direction)) steps.add(part, timer.embedding_backward(tokens));
  return steps.take();
}

std::vector<LayerStep> plan_head(const ModelShape& model, LayerTimer& timer, std::uint64_t tokens,
                                 const LayerSplit& split, Direction direction) {
  constexpr LayerPart part = LayerPart::head;
  StepList steps(model, tokens, split, &timer);
  const auto exchange = [&] { steps.add(part, collective::Operation::all_reduce, tokens * kLossBytes); };
  if (direction == Direction::forward) {
    steps.add(part, timer.norm(part, steps.divided_tokens()));
    steps.gather(part);
    steps.add(part, timer.logits(tokens));
    exchange();
    steps.add(part, timer.logit_exponentials(tokens));
    exchange();
    exchange();
    steps.add(part, timer.loss(tokens));
    return steps.take();
  }
  steps.add_backward(part, timer.head_backward(tokens, direction), timer.form(), direction);
  if (has_dgrad(direction)) steps.add(part, timer.norm_backward(part, steps.divided_tokens()));
  return steps.take();
}

}  // namespace railyard::transformer
