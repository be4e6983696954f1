// Experts that tokens reach by DeepEP: bytes and rows in closed form, and what Megatron Core launches around it.
#define BOOST_TEST_MODULE transformer_deepep
#include <boost/test/unit_test.hpp>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "tests/gpu/kernels_datasheets.h"
#include "tests/transformer/transformer_models.h"
#include "transformer/layer_plan.h"
#include "transformer/token_exchange.h"

using namespace railyard;
using namespace railyard::transformer;
using namespace railyard::test;
using Leg = collective::TokenExchange::Leg;

namespace {

constexpr std::uint32_t kExperts = 128, kChoices = 8, kEp = 16, kLocalExperts = kExperts / kEp;
constexpr std::uint64_t kTokens = 4096, kHidden = 2048;

ModelShape mixture() {
  ModelShape m = dense_model("mixture", 2, kHidden, 32, 768, 32000);
  m.kv_heads = 4;
  m.experts = kExperts;
  m.experts_per_token = kChoices;
  return m;
}

struct Planned {
  explicit Planned(Direction direction = Direction::forward, const std::optional<RankLoad>& load = std::nullopt) {
    gpu::KernelTimer kernels(gpu_datasheet("H100-SXM5-80GB"));
    LayerTimer timer(model, 1, kernels);
    TrainingForm form;
    form.routed = RoutedForm();
    form.routed->dispatch = TokenDispatch::deepep;
    timer.set_training(form);
    LayerSplit split;
    split.ep = kEp;
    split.load = load;
    steps = plan_layer(model, timer, {{{kTokens, 0}}, {}, 0}, split, direction);
  }
  std::vector<LayerStep> exchanges() const {
    std::vector<LayerStep> all;
    for (const LayerStep& step : steps)
      if (step.is_collective()) all.push_back(step);
    return all;
  }
  std::map<std::string, std::uint32_t> launches() const {
    std::map<std::string, std::uint32_t> all;
    for (const LayerStep& step : steps)
      for (const NamedKernel& kernel : step.kernels.kernels) all[kernel.name] += kernel.launches * kernel.of_call;
    return all;
  }
  const ModelShape model = mixture();
  std::vector<LayerStep> steps;
};

/// Tokens with no choice among n of the experts: C(E - n, k) / C(E, k).
double missed(std::uint32_t n) {
  return std::exp(std::lgamma(kExperts - n + 1) - std::lgamma(kExperts - n - kChoices + 1) - std::lgamma(kExperts + 1) +
                  std::lgamma(kExperts - kChoices + 1));
}

constexpr Bytes aligned(Bytes bytes) { return (bytes + 15) / 16 * 16; }

}  // namespace

BOOST_AUTO_TEST_CASE(a_token_is_sent_once_to_each_rank_and_server_with_its_experts) {
  const double of_rank = 1 - missed(kLocalExperts), of_server = 1 - missed(8 * kLocalExperts);
  BOOST_TEST(reached_share(1.0 / kEp, kExperts, kChoices) == of_rank, boost::test_tools::tolerance(1e-9));
  BOOST_TEST(reached_share(1, kExperts, kChoices) == 1.0);
  const Bytes forward = aligned(kHidden * 2 + 8 + kChoices * 8), back = aligned(kHidden * 2 + 8),
              gradients = aligned(kHidden * 2 + 8 + kChoices * 4);
  const auto is = [&](const LayerStep& step, Leg leg, Bytes token, bool notifies) {
    BOOST_TEST((step.tokens.leg == leg && step.group == RankGroup::ep));
    BOOST_TEST(step.tokens.notifies == notifies);
    BOOST_TEST(step.tokens.token_bytes == token);
    const auto near = [&](Bytes bytes, double tokens) {
      BOOST_TEST(std::abs(static_cast<double>(bytes) - tokens * static_cast<double>(token)) < 1.0);
    };
    near(step.bytes, kTokens * kEp * of_rank);
    near(step.tokens.network_bytes, kTokens * 2 * of_server);
  };
  const std::vector<LayerStep> to = Planned().exchanges(), fro = Planned(Direction::backward).exchanges();
  BOOST_TEST_REQUIRE(to.size() == 3u);
  BOOST_TEST((to[0].tokens.leg == Leg::notify && to[0].bytes == kEp * 16u && to[0].host_waits == HostWait::at_once));
  is(to[1], Leg::dispatch, forward, false);  // its numbers are known
  is(to[2], Leg::combine, back, true);
  BOOST_TEST_REQUIRE(fro.size() == 2u);
  is(fro[0], Leg::dispatch, back, true);
  is(fro[1], Leg::combine, gradients, true);
  // An all-to-all sends each copy, half of them to the other server.
  BOOST_TEST(to[1].bytes < kTokens * kChoices * kHidden * 2);
  BOOST_TEST(static_cast<double>(to[1].tokens.network_bytes) < 0.3 * kTokens * kChoices * kHidden * 2);
}

BOOST_AUTO_TEST_CASE(a_popular_rank_receives_more_tokens) {
  std::vector<double> shares(kExperts, 0.5 / (kExperts - kLocalExperts));
  for (std::uint32_t e = 0; e < kLocalExperts; ++e) shares[e] = 0.5 / kLocalExperts;
  const std::vector<RankLoad> loads = rank_loads(shares, kEp);
  LayerSplit split;
  split.ep = kEp;
  const ModelShape model = mixture();
  double sum = 0;
  for (const RankLoad& load : loads) {
    split.load = load;
    const ReceivedTokens received = TokenReach(model, split).received(kTokens);
    BOOST_TEST(received.tokens <= received.copies);
    BOOST_TEST(received.tokens <= kTokens * kEp);
    sum += static_cast<double>(received.tokens);
    const TokenLeg leg = TokenReach(model, split).leg(Leg::combine, kTokens, 0);
    BOOST_TEST_REQUIRE(leg.shares.of->size() == kEp);
    BOOST_TEST(leg.shares.by_sender);
    // Messages divide the bytes as tokens do.
    double weights = 0;
    for (const std::uint32_t weight : *leg.shares.of) weights += weight;
    BOOST_TEST((*leg.shares.of)[load.rank] / weights == static_cast<double>(received.tokens) *
                                                            static_cast<double>(leg.tokens.token_bytes) / kEp /
                                                            static_cast<double>(leg.bytes),
               boost::test_tools::tolerance(1e-4));
  }
  // The popular rank has half of all copies; a token has about four of them there, and reaches the rank almost surely.
  split.load = loads.front();
  BOOST_TEST(TokenReach(model, split).received(kTokens).tokens > 0.99 * kTokens * kEp);
  BOOST_TEST(sum < kTokens * kEp * kChoices / 2 + kTokens * kEp);
}

BOOST_AUTO_TEST_CASE(a_layer_launches_what_megatron_core_does_with_deepep) {
  const Planned forward;
  std::uint32_t waits = 0;
  for (const LayerStep& step : forward.steps) waits += step.host_waits == HostWait::none ? 0 : 1;
  constexpr std::uint32_t kNumbers = 1, kIndicesByMask = 2, kRepeats = 2;
  BOOST_TEST(waits == kNumbers + kIndicesByMask + kRepeats);
  const auto launches = forward.launches();
  constexpr std::uint32_t kByMask = (2 + 1) + (2 + 1 + 1);  // count and copy; selection, indices, gather
  constexpr std::uint32_t kRepeatInterleave = 2 + 1 + 3 + 1;
  std::uint32_t multihot = 0;
  for (const auto& [name, count] : launches)
    if (name.rfind("multihot", 0) == 0) multihot += count;
  //                   zeros, !=          arange, sum                       map = 1, weights, bool
  BOOST_TEST(multihot == 2 + 1 + kByMask + 1 + 1 + kRepeatInterleave + 2 + kByMask + 1 + 1);
  BOOST_TEST(launches.at("choices") + launches.at("dispatch_layout") == 2u);
  BOOST_TEST(launches.at("exchange_flags") == 1u);  // before combine; the numbers are flags before dispatch
  for (const char* absent : {"counts", "counts_of_ranks", "sort", "unsort"}) BOOST_TEST(launches.count(absent) == 0u);
  const Planned backward(Direction::backward);
  BOOST_TEST(backward.launches().at("exchange_flags") == 2u);
  waits = 0;
  for (const LayerStep& step : backward.steps) waits += step.host_waits == HostWait::none ? 0 : 1;
  BOOST_TEST(waits == 1u);  // the mask's indices
}

BOOST_AUTO_TEST_CASE(rows_are_copied_where_the_experts_are) {
  // Tokens that a rank receives, and their copies, each once read or written.
  gpu::KernelTimer timer(gpu_datasheet("H100-SXM5-80GB"));
  const double received = kTokens * kEp * (1 - missed(kLocalExperts)), copies = kTokens * kChoices;
  const double expected = timer.memory_bound(std::round(received) * kHidden * 2 + copies * kHidden * 2).seconds;
  const Planned plan;
  double permute = 0;
  for (const LayerStep& step : plan.steps)
    for (const NamedKernel& kernel : step.kernels.kernels)
      if (kernel.name == std::string("permute")) permute += kernel.time.seconds;
  BOOST_TEST(permute == expected, boost::test_tools::tolerance(1e-12));
}
