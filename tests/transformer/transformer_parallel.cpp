// Expert and context parallelism of a layer: what ranks exchange, and that they divide the work without a rest.
#define BOOST_TEST_MODULE transformer_parallel
#include <boost/test/unit_test.hpp>

#include <vector>

#include "tests/gpu/kernels_datasheets.h"
#include "tests/transformer/transformer_models.h"
#include "transformer/context_steps.h"
#include "transformer/layer_plan.h"
#include "transformer/parameters.h"
#include "transformer/training_memory.h"

using namespace railyard;
using namespace railyard::transformer;
using namespace railyard::test;

namespace {

constexpr std::uint64_t kTokens = 8192, kSequences = 2;
constexpr std::array<Direction, 3> kDirections{Direction::forward, Direction::dgrad, Direction::wgrad};
constexpr std::array<ContextExchange, 3> kExchanges{ContextExchange::p2p, ContextExchange::all_gather,
                                                    ContextExchange::a2a};

std::vector<LayerStep> plan(const ModelShape& model, const LayerSplit& split, Direction direction) {
  gpu::KernelTimer gpu(gpu_datasheet("H100-SXM5-80GB"));
  LayerTimer timer(model, split.tp, gpu);
  timer.set_training({});
  LayerPass pass;
  for (std::uint64_t sequence = 0; sequence < kSequences; ++sequence)
    for (const gpu::AttentionSequence& part : context_part(kTokens, split.cp, 0)) pass.prefills.push_back(part);
  return plan_layer(model, timer, pass, split, direction);
}

double flops_of(const std::vector<LayerStep>& steps) {
  double flops = 0;
  for (const LayerStep& step : steps) flops += step.kernels.flops;
  return flops;
}

/// Bytes that each rank sends in the collectives of a group.
double sent(const std::vector<LayerStep>& steps, RankGroup group, std::uint32_t ranks) {
  double bytes = 0;
  for (const LayerStep& step : steps) {
    if (!step.is_collective() || step.group != group) continue;
    const double whole = static_cast<double>(step.bytes);
    bytes += step.operation == collective::Operation::send_recv ? whole : whole * (ranks - 1) / ranks;
  }
  return bytes;
}

LayerSplit expert_split(std::uint32_t tp, std::uint32_t ep) { return {tp, tp > 1, ep}; }
LayerSplit context_split(std::uint32_t tp, std::uint32_t cp, ContextExchange exchange) {
  return {tp, tp > 1, 1, cp, exchange};
}

}  // namespace

// 2 k h bytes x (1 - 1/E) for each token that a rank routes, to its experts and back, in each direction.
BOOST_AUTO_TEST_CASE(tokens_travel_to_their_experts_and_back) {
  const ModelShape model = mixtral_8x7b();
  for (const std::uint32_t tp : {1u, 4u}) {
    for (const std::uint32_t ep : {2u, 4u, 8u}) {
      const double each_way = 2.0 * kSequences * kTokens / tp * model.experts_per_token * model.hidden * (ep - 1) / ep;
      const LayerSplit split = expert_split(tp, ep);
      BOOST_TEST(sent(plan(model, split, Direction::forward), RankGroup::ep, ep) == 2 * each_way);
      BOOST_TEST(sent(plan(model, split, Direction::dgrad), RankGroup::ep, ep) == 2 * each_way);
      BOOST_TEST(sent(plan(model, split, Direction::wgrad), RankGroup::ep, ep) == 0);
    }
    BOOST_TEST(sent(plan(model, expert_split(tp, 1), Direction::forward), RankGroup::ep, 1) == 0);
  }
}

BOOST_AUTO_TEST_CASE(expert_parallel_ranks_divide_experts_but_not_work) {
  const ModelShape model = mixtral_8x7b();
  const std::uint64_t all = rank_parameters(model, {32, true, true}, 1);
  for (const std::uint32_t ep : {2u, 4u, 8u}) {
    // Each rank has tokens of its own, so it does as much as a rank with all experts.
    for (const Direction direction : kDirections) {
      BOOST_TEST(flops_of(plan(model, expert_split(1, ep), direction)) ==
                 flops_of(plan(model, expert_split(1, 1), direction)));
      // The tensor-parallel ranks share one router and run it once.
      const double router = 2.0 * kSequences * kTokens * model.hidden * model.experts;
      BOOST_TEST(4 * flops_of(plan(model, expert_split(4, ep), direction)) ==
                     4 * flops_of(plan(model, expert_split(4, 1), direction)) - 3 * router,
                 boost::test_tools::tolerance(1e-13));
    }
    const RankParameters rank = rank_parameters(model, {32, true, true}, 1, ep);
    BOOST_TEST(rank.common + ep * rank.experts == all);
    BOOST_TEST(rank.experts == 32ull * 8 / ep * 3 * model.hidden * model.ffn);
    const MicroBatch batch{kSequences, kTokens};
    BOOST_TEST(sum_of(kept_by_layer(model, 0, batch, expert_split(1, ep), {})) ==
               sum_of(kept_by_layer(model, 0, batch, expert_split(1, 1), {})));
  }
}

// Zigzag: 2 parts of n tokens have n (2 cp n + 1) pairs, whichever rank has them.
BOOST_AUTO_TEST_CASE(context_parallel_ranks_have_equal_pairs) {
  for (const std::uint32_t cp : {2u, 4u, 8u}) {
    const double n = static_cast<double>(kTokens) / (2 * cp);
    std::vector<bool> taken(2 * cp, false);
    for (std::uint32_t place = 0; place < cp; ++place) {
      double pairs = 0;
      for (const gpu::AttentionSequence& part : context_part(kTokens, cp, place)) {
        pairs += gpu::causal_pairs(part);
        taken[part.kv_start / part.tokens] = true;
      }
      BOOST_TEST(pairs == n * (2 * cp * n + 1));
    }
    BOOST_TEST((taken == std::vector<bool>(2 * cp, true)));
  }
}

BOOST_AUTO_TEST_CASE(context_parallel_ranks_divide_the_work) {
  const ModelShape model = llama_8b();
  for (const std::uint32_t tp : {1u, 2u})
    for (const Direction direction : kDirections) {
      const double whole = flops_of(plan(model, {tp, tp > 1}, direction));
      for (const ContextExchange exchange : kExchanges)
        for (const std::uint32_t cp : {2u, 4u})
          BOOST_TEST(cp * flops_of(plan(model, context_split(tp, cp, exchange), direction)) == whole,
                     boost::test_tools::tolerance(1e-13));
    }
}

// A rank sends 2 bytes of K and V, 2 g d numbers, for each of its s / cp tokens to cp - 1 ranks: forward once; backward
// once more, and as many bytes of their gradients. a2a also sends queries and results, to cp - 1 of cp ranks.
BOOST_AUTO_TEST_CASE(keys_and_values_visit_all_context_parallel_ranks) {
  const ModelShape model = llama_8b();
  for (const std::uint32_t tp : {1u, 2u})
    for (const std::uint32_t cp : {2u, 4u}) {
      const double tokens = static_cast<double>(kSequences * kTokens) / cp, d = model.head_dim;
      const double kv = 2 * tokens * 2 * model.kv_heads / tp * d, q = 2 * tokens * model.heads / tp * d;
      const auto bytes = [&](ContextExchange exchange, Direction direction) {
        return sent(plan(model, context_split(tp, cp, exchange), direction), RankGroup::cp, cp);
      };
      for (const ContextExchange exchange : {ContextExchange::p2p, ContextExchange::all_gather}) {
        BOOST_TEST(bytes(exchange, Direction::forward) == kv * (cp - 1));
        BOOST_TEST(bytes(exchange, Direction::dgrad) == 2 * kv * (cp - 1));
        BOOST_TEST(bytes(exchange, Direction::wgrad) == 0);
      }
      for (const Direction direction : {Direction::forward, Direction::dgrad})
        BOOST_TEST(bytes(ContextExchange::a2a, direction) == (kv + 2 * q) * (cp - 1) / cp);
    }
}

// Each exchange of the ring runs beside one attention kernel, forward and backward.
BOOST_AUTO_TEST_CASE(the_ring_turns_beside_attention) {
  const LayerSplit split = context_split(1, 4, ContextExchange::p2p);
  for (const auto& [direction, exchanges] : {std::pair{Direction::forward, 3}, {Direction::backward, 4}}) {
    const std::vector<LayerStep> steps = plan(llama_8b(), split, direction);
    const std::string attention = direction == Direction::forward ? "attention" : "attention_dgrad";
    int beside = 0, kernels = 0;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      for (const NamedKernel& kernel : steps[i].kernels.kernels) kernels += kernel.name == attention ? 1 : 0;
      if (steps[i].group != RankGroup::cp) continue;
      BOOST_TEST(steps[i].beside_next);
      BOOST_TEST(steps.at(i + 1).kernels.kernels.front().name == attention);
      ++beside;
    }
    BOOST_TEST(beside == exchanges);
    BOOST_TEST(kernels == 4);
  }
}
