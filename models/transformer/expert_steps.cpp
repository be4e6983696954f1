#include "transformer/expert_steps.h"

#include "transformer/parameters.h"

namespace railyard::transformer {

namespace {

using collective::Operation;

constexpr LayerPart kMlp = LayerPart::mlp;

/// Copies that the experts of these tensor-parallel ranks get.
Bytes copies(const StepList& steps, const ModelShape& model) {
  const std::uint64_t even = steps.tokens() * model.experts_per_token;
  const std::optional<RankLoad>& load = steps.split().load;
  return hidden_bytes(model, load ? load->of(even) : even);
}

const RankLoad* load_of(const StepList& steps) { return steps.split().load ? &*steps.split().load : nullptr; }

enum class Leg : std::uint8_t { to_experts, back };

void exchange(StepList& steps, const ModelShape& model, Leg leg) {
  steps.add(kMlp, RankGroup::ep, Operation::all_to_all,
            hidden_bytes(model, steps.divided_tokens() * model.experts_per_token));
  if (const RankLoad* load = load_of(steps)) steps.set_shares({load->shares, leg == Leg::back});
}

}  // namespace

void add_expert_steps(StepList& steps, LayerTimer* timer, const ModelShape& model, std::uint32_t kind) {
  const Bytes gathered = copies(steps, model);
  if (model.shared_ffn > 0) {
    steps.gather(kMlp);
    if (timer != nullptr) steps.add(kMlp, timer->shared_experts(steps.tokens(), kind));
    steps.reduce(kMlp);
  }
  if (timer != nullptr) steps.add(kMlp, timer->route(steps.divided_tokens()));
  exchange(steps, model, Leg::to_experts);
  steps.add(kMlp, Operation::all_gather, gathered);
  if (timer != nullptr) steps.add(kMlp, timer->local_experts(steps.tokens(), kind, steps.split().ep, load_of(steps)));
  steps.add(kMlp, Operation::reduce_scatter, gathered);
  exchange(steps, model, Leg::back);
  if (timer != nullptr) steps.add(kMlp, timer->combine(steps.divided_tokens()));
}

void add_expert_steps_backward(StepList& steps, LayerTimer& timer, const ModelShape& model, Direction direction) {
  const bool collectives = has_dgrad(direction);
  const Bytes gathered = copies(steps, model);
  steps.add(kMlp, timer.combine_backward(steps.divided_tokens(), direction));
  if (collectives) {
    exchange(steps, model, Leg::to_experts);
    steps.add(kMlp, Operation::all_gather, gathered);
  }
  steps.add(kMlp, timer.local_experts_backward(steps.tokens(), direction, steps.split().ep, load_of(steps)));
  if (collectives) {
    steps.add(kMlp, Operation::reduce_scatter, gathered);
    exchange(steps, model, Leg::back);
  }
  steps.add(kMlp, timer.route_backward(steps.divided_tokens(), direction));
  if (model.shared_ffn == 0) return;
  if (collectives) steps.gather(kMlp);
  steps.add(kMlp, timer.shared_experts_backward(steps.tokens(), direction));
  if (collectives) steps.reduce(kMlp);
}

}  // namespace railyard::transformer
