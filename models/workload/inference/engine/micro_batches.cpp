#include "workload/inference/engine/micro_batches.h"

#include <algorithm>

#include "workload/inference/engine/pass.h"

namespace railyard::workload::inference {

using transformer::MicroBatchTurns;

namespace {

using Stages = std::vector<std::vector<Turn>>;

bool is_uniform(const ScheduledBatch& batch, const CudaGraphs& graphs) {
  return std::all_of(batch.items.begin(), batch.items.end(), [&](const ScheduledBatch::Item& item) {
    return item.is_decode && item.tokens == graphs.decode_tokens;
  });
}

/// The first tokens of a replica's batch become the first micro-batch.
void cut(const ScheduledBatch& own, std::uint64_t first, Halves& halves) {
  std::uint64_t left = first;
  for (const ScheduledBatch::Item& item : own.items) {
    const auto in_first = static_cast<std::uint32_t>(std::min<std::uint64_t>(left, item.tokens));
    left -= in_first;
    ScheduledBatch::Item part = item;
    part.tokens = in_first;
    if (in_first > 0) halves.batches[0].items.push_back(part);
    part.tokens = item.tokens - in_first;
    part.start = item.start + in_first;
    if (part.tokens > 0) halves.batches[1].items.push_back(part);
  }
}

std::optional<Halves> divide_tokens(const std::vector<ScheduledBatch>& replicas, const MicroBatchRules& rules,
                                    std::optional<std::uint64_t> padded_tokens, const CudaGraphs& graphs) {
  std::uint64_t padded = padded_tokens.value_or(0);
  for (const ScheduledBatch& own : replicas) padded = std::max<std::uint64_t>(padded, own.tokens());
  Halves halves;
  for (const ScheduledBatch& own : replicas) {
    const std::uint64_t least = is_uniform(own, graphs) ? rules.decode_tokens : rules.prompt_tokens;
    if (own.tokens() < least || own.tokens() <= padded / 2) return std::nullopt;
    cut(own, padded / 2, halves);
  }
  halves.tokens = {padded / 2, padded - padded / 2};
  halves.pads = true;
  return halves;
}

std::optional<Halves> divide_sequences(const std::vector<ScheduledBatch>& replicas,
                                       std::optional<std::uint64_t> padded_tokens, const CudaGraphs& graphs) {
  const std::uint64_t each = graphs.decode_tokens;
  const std::uint64_t half_graph = ceil_div(padded_tokens.value_or(0), 2 * each) * each;
  Halves halves;
  for (const ScheduledBatch& own : replicas) {
    if (!is_uniform(own, graphs)) return std::nullopt;
    cut(own, padded_tokens ? half_graph : own.items.size() / 2 * each, halves);
  }
  for (std::size_t half = 0; half < 2; ++half) {
    if (halves.batches[half].items.empty()) return std::nullopt;
    halves.tokens[half] = half_graph;
  }
  halves.pads = padded_tokens.has_value();
  return halves;
}

/// Between which a micro-batch gives the SMs to the other one. The last one goes on in the next layer.
void add_stages(Stages& stages, const std::vector<Pass::Step>& steps, MicroBatchTurns turns, std::uint32_t half,
                std::uint32_t layer) {
  const bool in_stages = turns == MicroBatchTurns::in_stages;
  const bool exchanges = std::any_of(steps.begin(), steps.end(), [](const auto& step) { return step.is_exchange(); });
  const auto is_attention = [&](std::size_t s) {
    return steps[s].kernels != nullptr && steps[s].part == transformer::LayerPart::attention;
  };
  bool is_back = false;
  for (std::uint32_t s = 0; s < steps.size(); ++s) {
    const bool is_exchange = steps[s].is_exchange();
    if (in_stages && is_exchange && !is_back) stages.emplace_back();
    Turn turn{half, layer, s, s == 0};
    turn.has_all_kv = half == 1 && is_attention(s) && !(s + 1 < steps.size() && is_attention(s + 1));
    stages.back().push_back(turn);
    if (is_exchange) {
      if (steps[s].beside_next) stages.back().push_back({half, layer, ++s, false, true});
      stages.emplace_back();
      if (in_stages && is_back) stages.emplace_back();
      is_back = true;
    } else if (in_stages && exchanges && s == 0) {
      stages.emplace_back();
    }
  }
}

}  // namespace

std::optional<Halves> divide(const ScheduledBatch& batch, std::uint32_t replicas, const MicroBatchRules& rules,
                             std::optional<std::uint64_t> padded_tokens, const CudaGraphs& graphs) {
  if (rules.turns == MicroBatchTurns::none) return std::nullopt;
  std::vector<ScheduledBatch> each;
  for (std::uint32_t r = 0; r < replicas; ++r) each.push_back(batch.of_replica(r));
  return rules.turns == MicroBatchTurns::in_stages ? divide_sequences(each, padded_tokens, graphs)
                                                   : divide_tokens(each, rules, padded_tokens, graphs);
}

std::vector<Turn> turns_of(const Pass& pass, const std::vector<std::uint32_t>& kinds) {
  std::vector<Turn> turns;
  std::array<Stages, 2> stages{Stages(1), Stages(1)};
  for (std::uint32_t layer = 0; layer < kinds.size(); ++layer) {
    const std::uint32_t kind = kinds[layer];
    if (pass.is_divided(layer)) {
      for (std::uint32_t half = 0; half < 2; ++half)
        add_stages(stages[half], pass.halves[kind][half], pass.turns, half, layer);
      continue;
    }
    for (std::uint32_t s = 0; s < pass.layers[kind].size(); ++s) {
      Turn turn{0, layer, s, s == 0};
      turn.has_all_kv = s == 0;
      turns.push_back(turn);
    }
  }
  const std::size_t ahead = pass.turns == MicroBatchTurns::in_stages ? 2 : 0;
  const auto take = [&turns](const std::vector<Turn>& stage) { turns.insert(turns.end(), stage.begin(), stage.end()); };
  for (std::size_t s = 0; s < stages[0].size() + ahead; ++s) {
    if (s < stages[0].size()) take(stages[0][s]);
    if (s >= ahead) take(stages[1][s - ahead]);
  }
  return turns;
}

}  // namespace railyard::workload::inference
