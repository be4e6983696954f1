#include "transformer/replica_steps.h"

#include <cmath>

#include "transformer/parameters.h"

namespace railyard::transformer {

namespace {

using collective::Operation;

constexpr LayerPart kPart = LayerPart::mlp;

Bytes fullest(const ExpertRanks& ranks, Bytes bytes) {
  return static_cast<Bytes>(std::ceil(static_cast<double>(bytes) * ranks.fullest));
}

void add_experts(StepList& steps, LayerTimer* timer, const LayerPass& pass) {
  if (timer == nullptr) return;
  Segment experts = timer->permute(pass.group_tokens);
  experts.append(timer->local_experts(pass.group_tokens, pass.kind));
  experts.append(timer->combine(pass.group_tokens));
  steps.add(kPart, experts);
}

/// Shared experts beside the exchange that was added last.
void add_beside(StepList& steps, LayerTimer* timer, const LayerPass& pass, std::uint64_t tokens) {
  if (timer == nullptr) return;
  const Segment shared = timer->whole_shared_experts(tokens, pass.kind);
  if (shared.kernels.empty()) return;
  steps.run_beside_next();
  steps.add(kPart, shared);
}

}  // namespace

Bytes dispatch_bytes(const ModelShape& model, std::uint32_t kind, ExpertExchange exchange, std::uint64_t tokens) {
  constexpr std::uint64_t kHeader = 16, kScaleBytes = 4, kScaled = 128;
  const std::optional<WeightFormat>& format = model.kinds[kind].experts;
  const std::uint64_t copies = tokens * model.experts_per_token;
  if (exchange == ExpertExchange::all_to_all) return hidden_bytes(model, copies);
  const bool narrow = format && format->blocks_of_128 && format->dtype == DataType::fp8;
  const std::uint64_t numbers = narrow ? model.hidden + model.hidden / kScaled * kScaleBytes : hidden_bytes(model, 1);
  return copies * (kHeader + numbers);
}

Bytes combine_bytes(const ModelShape& model, std::uint64_t tokens) {
  return hidden_bytes(model, tokens * model.experts_per_token);
}

void add_replica_expert_steps(StepList& steps, LayerTimer* timer, const ModelShape& model, const LayerPass& pass) {
  const std::uint64_t all = pass.group_tokens, own = ceil_div(steps.tokens(), steps.split().tp);
  const ExpertRanks& ranks = steps.split().experts;
  const MicroBatchTurns turns = steps.split().turns;
  if (timer != nullptr) {
    steps.add(kPart, timer->norm(kPart, steps.split().scatters_tokens() ? own : steps.tokens()));
    steps.add(kPart, timer->router(own));
    if (turns == MicroBatchTurns::none) steps.add(kPart, timer->whole_shared_experts(own, pass.kind));
  }
  if (ranks.exchange == ExpertExchange::allgather_reducescatter) {
    const Bytes scores = stored_bytes(all * model.experts, model.dtype);
    steps.add(kPart, RankGroup::ep, Operation::all_gather, hidden_bytes(model, all) + scores);
    add_experts(steps, timer, pass);
    steps.add(kPart, RankGroup::ep, Operation::reduce_scatter, hidden_bytes(model, all));
  } else {
    steps.add(kPart, RankGroup::ep, Operation::all_to_all,
              fullest(ranks, dispatch_bytes(model, pass.kind, ranks.exchange, own)));
    if (turns == MicroBatchTurns::in_stages) add_beside(steps, timer, pass, own);
    add_experts(steps, timer, pass);
    steps.add(kPart, RankGroup::ep, Operation::all_to_all, fullest(ranks, combine_bytes(model, own)));
    if (turns == MicroBatchTurns::at_exchanges) add_beside(steps, timer, pass, own);
  }
  steps.add(kPart, Operation::all_gather, hidden_bytes(model, steps.split().replica_tokens(steps.tokens())));
}

}  // namespace railyard::transformer
