#include "transformer/expert_steps.h"

#include "transformer/parameters.h"
#include "transformer/token_exchange.h"

namespace railyard::transformer {

namespace {

using collective::Operation;
using Leg = collective::TokenExchange::Leg;

constexpr LayerPart kMlp = LayerPart::mlp;

/// Copies that tensor-parallel ranks which divide experts gather for them.
Bytes copies(const StepList& steps, const ModelShape& model) {
  const std::uint64_t even = steps.tokens() * model.experts_per_token;
  const std::optional<RankLoad>& load = steps.split().load;
  return hidden_bytes(model, load ? load->of(even) : steps.split().sent(even));
}

const RankLoad* load_of(const StepList& steps) { return steps.split().load ? &*steps.split().load : nullptr; }

enum class Way : std::uint8_t { to_experts, back };

void exchange(StepList& steps, const ModelShape& model, Way way) {
  steps.add(kMlp, RankGroup::ep, Operation::all_to_all,
            hidden_bytes(model, steps.split().sent(steps.divided_tokens() * model.experts_per_token)));
  if (const RankLoad* load = load_of(steps)) steps.set_shares({load->shares, way == Way::back});
}

/// A weight of each copy travels beside it.
void exchange_weights(StepList& steps, const LayerTimer& timer, const ModelShape& model, Way way) {
  if (!timer.form().routed || !timer.form().routed->sends_weights) return;
  constexpr Bytes kWeightBytes = 4;
  steps.add(kMlp, RankGroup::ep, Operation::all_to_all,
            steps.split().sent(steps.divided_tokens() * model.experts_per_token) * kWeightBytes);
  if (const RankLoad* load = load_of(steps)) steps.set_shares({load->shares, way == Way::back});
}

/// Kernels of shared experts beside the exchange that was added last, if the form has them there.
void add_beside(StepList& steps, const LayerTimer& timer, const Segment& kernels) {
  if (!timer.runs_shared_beside()) return;
  steps.run_beside_next();
  steps.add(kMlp, kernels);
}

void add_waits(StepList& steps, const std::vector<Segment>& parts) {
  for (std::size_t i = 0; i < parts.size(); ++i) {
    steps.add(kMlp, parts[i]);
    if (i + 1 < parts.size()) steps.wait_on_host(HostWait::at_once);
  }
}

/// With flags first: numbers of tokens are known.
void add_leg(StepList& steps, LayerTimer& timer, TokenLeg leg) {
  steps.add(kMlp, timer.exchange_flags());
  leg.tokens.notifies = true;
  steps.add(kMlp, leg);
}

/// Forward a token travels with its choices and their weights; results have none.
void add_deepep_steps(StepList& steps, LayerTimer& timer, const ModelShape& model, std::uint32_t kind) {
  const TokenReach reach(model, steps.split());
  const std::uint64_t tokens = steps.divided_tokens();
  const ReceivedTokens received = reach.received(tokens);
  steps.add(kMlp, timer.router(tokens));
  steps.add(kMlp, timer.choices(tokens));
  steps.add(kMlp, reach.notify());
  steps.wait_on_host(HostWait::at_once);
  steps.add(kMlp, reach.leg(Leg::dispatch, tokens, 2 * model.experts_per_token));
  add_beside(steps, timer, timer.shared_experts_first(steps.tokens(), kind));
  add_waits(steps, timer.multihot(received));
  steps.add(kMlp, timer.permute(received));
  steps.add(kMlp, timer.local_experts(expert_tokens(steps), kind, steps.split().expert_ranks(), load_of(steps)));
  steps.add(kMlp, timer.combine(received));
  add_leg(steps, timer, reach.leg(Leg::combine, tokens, 0));
  add_beside(steps, timer, timer.shared_experts_second(steps.tokens(), kind));
}

/// Gradients of results go to the experts; those of tokens come back with those of the weights.
void add_deepep_steps_backward(StepList& steps, LayerTimer& timer, const ModelShape& model, Direction direction) {
  const TokenReach reach(model, steps.split());
  const std::uint64_t tokens = steps.divided_tokens();
  const ReceivedTokens received = reach.received(tokens);
  const bool collectives = has_dgrad(direction);
  if (collectives) {
    add_leg(steps, timer, reach.leg(Leg::dispatch, tokens, 0));
    add_beside(steps, timer, timer.shared_experts_second_backward(steps.tokens(), direction));
    steps.add(kMlp, timer.combine_backward(received));
  }
  steps.add(kMlp, timer.local_experts_backward(expert_tokens(steps), direction, steps.split().expert_ranks(),
                                               load_of(steps)));
  if (collectives) {
    steps.add(kMlp, timer.permute_backward(received));
    add_waits(steps, timer.multihot_backward(received));
    add_leg(steps, timer, reach.leg(Leg::combine, tokens, model.experts_per_token));
    add_beside(steps, timer, timer.shared_experts_first_backward(steps.tokens(), direction));
    steps.add(kMlp, timer.choices_backward(tokens));
  }
  steps.add(kMlp, timer.router_backward(tokens, direction));
}

/// Between an exchange and the experts, if tensor-parallel ranks divide these.
void join_ranks(StepList& steps, Operation operation, Bytes bytes) {
  if (!steps.split().whole_experts) steps.add(kMlp, operation, bytes);
}

void add_all_to_all_steps(StepList& steps, LayerTimer* timer, const ModelShape& model, std::uint32_t kind) {
  const Bytes gathered = copies(steps, model);
  if (timer != nullptr) add_routing_steps(steps, *timer, model, steps.divided_tokens());
  exchange(steps, model, Way::to_experts);
  if (timer != nullptr) {
    add_beside(steps, *timer, timer->shared_experts_first(steps.tokens(), kind));
    exchange_weights(steps, *timer, model, Way::to_experts);
  }
  join_ranks(steps, Operation::all_gather, gathered);
  if (timer != nullptr)
    steps.add(kMlp, timer->local_experts(expert_tokens(steps), kind, steps.split().expert_ranks(), load_of(steps)));
  join_ranks(steps, Operation::reduce_scatter, gathered);
  exchange(steps, model, Way::back);
  if (timer == nullptr) return;
  add_beside(steps, *timer, timer->shared_experts_second(steps.tokens(), kind));
  steps.add(kMlp, timer->combine(steps.divided_tokens(), load_of(steps)));
}

void add_all_to_all_steps_backward(StepList& steps, LayerTimer& timer, const ModelShape& model, Direction direction) {
  const bool collectives = has_dgrad(direction);
  const Bytes gathered = copies(steps, model);
  steps.add(kMlp, timer.combine_backward(steps.divided_tokens(), direction, load_of(steps)));
  if (collectives) {
    exchange(steps, model, Way::to_experts);
    add_beside(steps, timer, timer.shared_experts_second_backward(steps.tokens(), direction));
    join_ranks(steps, Operation::all_gather, gathered);
  }
  steps.add(kMlp, timer.local_experts_backward(expert_tokens(steps), direction, steps.split().expert_ranks(),
                                               load_of(steps)));
  if (collectives) {
    join_ranks(steps, Operation::reduce_scatter, gathered);
    exchange_weights(steps, timer, model, Way::back);
    exchange(steps, model, Way::back);
    add_beside(steps, timer, timer.shared_experts_first_backward(steps.tokens(), direction));
  }
  steps.add(kMlp, timer.route_backward(steps.divided_tokens(), direction, load_of(steps)));
}

}  // namespace

std::uint64_t expert_tokens(const StepList& steps) {
  return steps.split().whole_experts ? steps.divided_tokens() : steps.tokens();
}

void add_routing_steps(StepList& steps, LayerTimer& timer, const ModelShape& model, std::uint64_t tokens) {
  constexpr Bytes kCountBytes = 8;
  steps.add(kMlp, timer.router(tokens));
  if (timer.waits_for_counts()) {
    const std::uint32_t ranks = steps.split().expert_ranks();
    steps.add(kMlp, timer.count_copies(tokens));
    if (ranks > 1) steps.add(kMlp, RankGroup::ep, Operation::all_gather, ranks * model.experts * kCountBytes);
    steps.add(kMlp, timer.counts_of_ranks());
    steps.wait_on_host(HostWait::after_next);
  }
  steps.add(kMlp, timer.permute(tokens, load_of(steps)));
}

void add_expert_steps(StepList& steps, LayerTimer* timer, const ModelShape& model, std::uint32_t kind) {
  const bool has_shared = model.shared_ffn > 0, beside = timer != nullptr && timer->runs_shared_beside();
  if (has_shared) {
    steps.gather(kMlp);
    if (timer != nullptr && !beside) steps.add(kMlp, timer->shared_experts(steps.tokens(), kind));
    if (!beside) steps.reduce(kMlp);
  }
  timer != nullptr && timer->dispatches_once() ? add_deepep_steps(steps, *timer, model, kind)
                                               : add_all_to_all_steps(steps, timer, model, kind);
  if (beside) steps.reduce(kMlp);
}

void add_expert_steps_backward(StepList& steps, LayerTimer& timer, const ModelShape& model, Direction direction) {
  const bool collectives = has_dgrad(direction), beside = collectives && timer.runs_shared_beside();
  if (beside) steps.gather(kMlp);
  timer.dispatches_once() ? add_deepep_steps_backward(steps, timer, model, direction)
                          : add_all_to_all_steps_backward(steps, timer, model, direction);
  if (model.shared_ffn == 0) return;
  if (collectives && !beside) steps.gather(kMlp);
  if (!beside) steps.add(kMlp, timer.shared_experts_backward(steps.tokens(), direction));
  if (collectives) steps.reduce(kMlp);
}

}  // namespace railyard::transformer
