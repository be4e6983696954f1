#include "transformer/layer_plan.h"

#include "transformer/step_list.h"

namespace railyard::transformer {

namespace {

/// Without a timer only the collectives.
void add_forward(StepList& steps, LayerTimer* timer, const LayerPass& pass) {
  for (const LayerPart part : {LayerPart::attention, LayerPart::mlp}) {
    if (timer != nullptr) steps.add(part, timer->norm(part, steps.divided_tokens()));
    steps.gather(part);
    if (timer != nullptr)
      steps.add(part,
                part == LayerPart::mlp ? timer->mlp_body(steps.tokens(), pass.kind) : timer->attention_body(pass));
    steps.reduce(part);
    if (timer != nullptr) steps.add(part, timer->dropout(part, steps.divided_tokens()));
  }
}

void add_backward(StepList& steps, LayerTimer& timer, const LayerPass& pass, Direction direction) {
  for (const LayerPart part : {LayerPart::mlp, LayerPart::attention}) {
    steps.add(part, timer.dropout_backward(part, steps.divided_tokens(), direction));
    if (has_dgrad(direction)) steps.gather(part);
    steps.add_backward(part,
                       part == LayerPart::mlp ? timer.mlp_backward(steps.tokens(), pass.kind, direction)
                                              : timer.attention_backward(pass, direction),
                       timer.form(), direction);
    if (has_dgrad(direction)) steps.add(part, timer.norm_backward(part, steps.divided_tokens()));
  }
}

}  // namespace

std::vector<LayerStep> plan_layer(const ModelShape& model, LayerTimer& timer, const LayerPass& pass,
                                  const LayerSplit& split, Direction direction) {
  StepList steps(model, pass.dense_tokens(), split);
  direction == Direction::forward ? add_forward(steps, &timer, pass) : add_backward(steps, timer, pass, direction);
  return steps.take();
}

std::vector<LayerStep> plan_recompute(const ModelShape& model, LayerTimer& timer, const LayerPass& pass,
                                      const LayerSplit& split) {
  StepList steps(model, pass.dense_tokens(), split);
  switch (timer.form().recompute) {
    case Recompute::none: break;
    case Recompute::selective: steps.add(LayerPart::attention, timer.attention_core(pass)); break;
    case Recompute::full: add_forward(steps, &timer, pass); break;
  }
  return steps.take();
}

std::vector<LayerStep> layer_collectives(const ModelShape& model, std::uint64_t tokens, const LayerSplit& split) {
  StepList steps(model, tokens, split);
  add_forward(steps, nullptr, {});
  return steps.take();
}

}  // namespace railyard::transformer
