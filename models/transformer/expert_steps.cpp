#include "transformer/expert_steps.h"

#include "transformer/parameters.h"

namespace railyard::transformer {

namespace {

using collective::Operation;

constexpr LayerPart kPart = LayerPart::mlp;

/// Copies of the tokens of a rank, or of all tensor-parallel ranks.
Bytes copies(const ModelShape& model, std::uint64_t tokens) {
  return hidden_bytes(model, tokens * model.experts_per_token);
}

/// Copies to their experts or back.
void exchange(StepList& steps, const ModelShape& model) {
  steps.add(kPart, RankGroup::ep, Operation::all_to_all, copies(model, steps.divided_tokens()));
}

}  // namespace

void add_expert_steps(StepList& steps, LayerTimer* timer, const ModelShape& model, std::uint32_t kind) {
  const Bytes gathered = copies(model, steps.tokens());
  if (model.shared_ffn > 0) {
    steps.gather(kPart);
    if (timer != nullptr) steps.add(kPart, timer->shared_experts(steps.tokens(), kind));
    steps.reduce(kPart);
  }
  if (timer != nullptr) steps.add(kPart, timer->route(steps.divided_tokens()));
  exchange(steps, model);
  steps.add(kPart, Operation::all_gather, gathered);
  if (timer != nullptr) steps.add(kPart, timer->local_experts(steps.tokens(), kind, steps.split().ep));
  steps.add(kPart, Operation::reduce_scatter, gathered);
  exchange(steps, model);
  if (timer != nullptr) steps.add(kPart, timer->combine(steps.divided_tokens()));
}

void add_expert_steps_backward(StepList& steps, LayerTimer& timer, const ModelShape& model, Direction direction) {
  const bool collectives = has_dgrad(direction);
  const Bytes gathered = copies(model, steps.tokens());
  steps.add(kPart, timer.combine_backward(steps.divided_tokens(), direction));
  if (collectives) {
    exchange(steps, model);
    steps.add(kPart, Operation::all_gather, gathered);
  }
  steps.add(kPart, timer.local_experts_backward(steps.tokens(), direction, steps.split().ep));
  if (collectives) {
    steps.add(kPart, Operation::reduce_scatter, gathered);
    exchange(steps, model);
  }
  steps.add(kPart, timer.route_backward(steps.divided_tokens(), direction));
  if (model.shared_ffn == 0) return;
  if (collectives) steps.gather(kPart);
  steps.add(kPart, timer.shared_experts_backward(steps.tokens(), direction));
  if (collectives) steps.reduce(kPart);
}

}  // namespace railyard::transformer
