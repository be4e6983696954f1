// What training launches around routed experts, counted by hand from Megatron Core's sources
// (models/transformer/layer_kernels_routing.cpp).
#define BOOST_TEST_MODULE transformer_routed
#include <boost/test/unit_test.hpp>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "tests/gpu/kernels_datasheets.h"
#include "tests/transformer/transformer_models.h"
#include "transformer/layer_plan.h"

using namespace railyard;
using namespace railyard::transformer;
using namespace railyard::test;
using collective::Operation;

namespace {

constexpr std::uint32_t kEp = 16, kLocalExperts = 8;
constexpr std::uint64_t kTokens = 4096;

/// Qwen3-30B-A3B (config.json), without norms of queries and keys.
ModelShape qwen3_30b() {
  ModelShape m = dense_model("qwen3-30b-a3b", 48, 2048, 32, 768, 151936);
  m.kv_heads = 4;
  m.experts = kEp * kLocalExperts;
  m.experts_per_token = 8;
  return m;
}

struct Planned {
  explicit Planned(const std::optional<RoutedForm>& routed, Direction direction = Direction::forward,
                   std::uint32_t ep = kEp, const ModelShape& shape = qwen3_30b(),
                   const std::optional<RankLoad>& load = std::nullopt)
      : model(shape) {
    gpu::KernelTimer kernels(gpu_datasheet("H100-SXM5-80GB"));
    LayerTimer timer(model, 1, kernels);
    TrainingForm form;
    form.routed = routed;
    timer.set_training(form);
    LayerSplit split;
    split.ep = ep;
    split.load = load;
    if (routed) split.copies = routed->copies();
    steps = plan_layer(model, timer, {{{kTokens, 0}}, {}, 0}, split, direction);
  }
  /// Of each kernel of the MLP by name: launches and time.
  std::map<std::string, std::pair<std::uint32_t, double>> kernels() const {
    std::map<std::string, std::pair<std::uint32_t, double>> all;
    for (const LayerStep& step : steps)
      for (const NamedKernel& kernel : step.kernels.kernels)
        if (step.part == LayerPart::mlp) {
          all[kernel.name].first += kernel.launches * kernel.of_call;
          all[kernel.name].second += kernel.time.seconds;
        }
    return all;
  }
  std::uint32_t launches() const {
    std::uint32_t sum = 0;
    for (const auto& [name, kernel] : kernels()) sum += kernel.first;
    return sum;
  }
  std::vector<std::pair<Operation, Bytes>> collectives() const {
    std::vector<std::pair<Operation, Bytes>> all;
    for (const LayerStep& step : steps)
      if (step.is_collective()) all.emplace_back(step.operation, step.bytes);
    return all;
  }

  const ModelShape model;
  std::vector<LayerStep> steps;
};

RoutedForm eager(ExpertProducts products) {
  RoutedForm form;
  form.products = products;
  form.router_fused = form.permute_fused = false;
  return form;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_layer_launches_what_megatron_core_does) {
  constexpr std::uint32_t kNorm = 1, kRouter = 2, kActivation = 1;
  constexpr std::uint32_t kOperators = 3 + 3 + 5 + 8 + 7;  // choice, weights, map; of the loss: scores and map, sums
  constexpr std::uint32_t kCounts = 3 + 8, kSorts = 2 * 2, kProducts = 2;
  constexpr std::uint32_t kPermute = 8 + 1, kCombine = 2 + 1, kPermuteFused = 3 + 1, kCombineFused = 1;
  const std::uint32_t fixed = kNorm + kRouter + kActivation + kCounts + kSorts;
  BOOST_TEST(Planned(eager(ExpertProducts::streams)).launches() ==
             fixed + kOperators + kPermute + kCombine + kProducts * kLocalExperts);
  BOOST_TEST(Planned(eager(ExpertProducts::sequential)).launches() ==
             fixed + kOperators + kPermute + kCombine + kProducts * kLocalExperts);
  BOOST_TEST(Planned(eager(ExpertProducts::grouped)).launches() ==
             fixed + kOperators + kPermute + kCombine + kProducts);
  constexpr std::uint32_t kFusedRouter = 2;
  BOOST_TEST(Planned(RoutedForm()).launches() == fixed + kFusedRouter + kPermuteFused + kCombineFused + kProducts);
}

BOOST_AUTO_TEST_CASE(a_backward_pass_has_two_products_for_each_expert_and_matrix) {
  constexpr std::uint32_t kNorm = 2;  // and the sum with the residual's gradient
  constexpr std::uint32_t kCombine = 2 + 1, kSorts = 2 * 2, kActivation = 1, kPermute = 1 + 3, kOperators = 10,
                          kRouter = 2, kProducts = 4;
  RoutedForm form = eager(ExpertProducts::streams);
  const Planned backward(form, Direction::backward);
  const auto kernels = backward.kernels();
  const std::uint32_t norms = kernels.count("residual_dgrad") + kernels.count("rmsnorm_dgrad");
  BOOST_TEST(norms <= kNorm);
  BOOST_TEST(backward.launches() ==
             norms + kCombine + kSorts + kActivation + kPermute + kOperators + kRouter + kProducts * kLocalExperts);
  for (const LayerStep& step : backward.steps)
    BOOST_TEST((step.host_waits == HostWait::none));  // sizes are known by now
}

BOOST_AUTO_TEST_CASE(products_of_experts_have_the_same_flops_one_by_one) {
  const auto grouped = Planned(eager(ExpertProducts::grouped)).kernels();
  const auto streams = Planned(eager(ExpertProducts::streams)).kernels();
  const auto sequential = Planned(eager(ExpertProducts::sequential)).kernels();
  gpu::KernelTimer timer(gpu_datasheet("H100-SXM5-80GB"));
  constexpr std::uint64_t kRows = kTokens * 8 / kLocalExperts;  // 8 choices of a token, even routing
  gpu::GemmShape down{kRows, 2048, 768, DataType::bf16};
  down.steady = true;
  const char* name = kernel_name({Linear::experts_fc2, Product::fprop});
  BOOST_TEST(sequential.at(name).second == kLocalExperts * timer.gemm(down).seconds,
             boost::test_tools::tolerance(1e-12));
  BOOST_TEST(streams.at(name).second == grouped.at(name).second);
  BOOST_TEST(sequential.at(name).second > grouped.at(name).second);
}

BOOST_AUTO_TEST_CASE(ranks_exchange_numbers_copies_and_weights) {
  constexpr Bytes kCopies = kTokens * 8, kOfCopy = 2048 * 2, kOfWeight = 4, kOfCount = 8;
  using Collectives = std::vector<std::pair<Operation, Bytes>>;
  const auto is = [](const Planned& plan, const Collectives& expected) { return plan.collectives() == expected; };
  const std::pair<Operation, Bytes> numbers{Operation::all_gather, kEp * 128 * kOfCount},
      copies{Operation::all_to_all, kCopies * kOfCopy}, weights{Operation::all_to_all, kCopies * kOfWeight};
  BOOST_TEST(is(Planned(RoutedForm()), {numbers, copies, weights, copies}));
  BOOST_TEST(is(Planned(RoutedForm(), Direction::backward), {copies, weights, copies}));
  RoutedForm form;
  form.sends_weights = form.synchronizes = false;
  BOOST_TEST(is(Planned(form), {copies, copies}));
  BOOST_TEST(is(Planned(std::nullopt), {copies, copies}));
}

BOOST_AUTO_TEST_CASE(the_host_waits_for_the_numbers_while_rows_are_copied) {
  for (const std::uint32_t ep : {kEp, 1u}) {
    const Planned plan(RoutedForm(), Direction::forward, ep);
    std::uint32_t waits = 0;
    for (std::size_t i = 0; i < plan.steps.size(); ++i) {
      if (plan.steps[i].host_waits == HostWait::none) continue;
      ++waits;
      BOOST_TEST(plan.steps[i].kernels.kernels.back().name == std::string("counts_of_ranks"));
      BOOST_TEST(plan.steps[i + 1].kernels.kernels.front().name == std::string("row_numbers"));
    }
    BOOST_TEST(waits == 1u);
  }
}

BOOST_AUTO_TEST_CASE(without_a_routed_form_kernels_are_those_of_an_engine) {
  const std::map<std::string, std::pair<std::uint32_t, double>> kernels = Planned(std::nullopt).kernels();
  for (const auto& [name, kernel] : kernels) BOOST_TEST(kernel.first == 1u, name);
  BOOST_TEST(kernels.count("router_operators") + kernels.count("counts") + kernels.count("row_numbers") == 0u);
}

BOOST_AUTO_TEST_CASE(a_router_like_that_of_deepseek_v3_launches_more) {
  ModelShape v3 = qwen3_30b();
  v3.router = {true, true, true, 8};
  const auto more = [&](const RoutedForm& form, Direction direction) {
    return Planned(form, direction, kEp, v3).launches() - Planned(form, direction).launches();
  };
  // Choices: to fp32, sigmoid, bias, gather, sum, epsilon, quotient, factor, less a softmax; of groups ten; loads counted and
  // added. Loss: to fp32, sigmoid, sum, epsilon, quotient, less a softmax.
  constexpr std::uint32_t kChoices = 8 - 1, kGroups = 10, kLoads = 2, kLoss = 5 - 1;
  BOOST_TEST(more(eager(ExpertProducts::streams), Direction::forward) == kChoices + kGroups + kLoads + kLoss);
  // A quotient has gradients of both operands, one and four operators; sum over experts, sum of both, sigmoid, type. And the factor.
  constexpr std::uint32_t kQuotient = 1 + 4 + 1 + 1 + 1 + 1 - 1;
  BOOST_TEST(more(eager(ExpertProducts::streams), Direction::backward) == 2 * kQuotient + 1);
  BOOST_TEST(more(RoutedForm(), Direction::forward) == 0u);  // fused
}

BOOST_AUTO_TEST_CASE(experts_have_a_capacity) {
  constexpr Bytes kAll = kTokens * 8 * 2048 * 2;
  const auto exchanged = [](const Planned& plan) {
    for (const LayerStep& step : plan.steps)
      if (step.is_collective() && step.operation == Operation::all_to_all) return step.bytes;
    return Bytes{0};
  };
  RoutedForm form;
  form.capacity = 1;
  BOOST_TEST(exchanged(Planned(form)) == kAll);  // even routing fills each expert
  form.capacity = 0.5;
  BOOST_TEST(exchanged(Planned(form)) == kAll / 2);
  // A popular expert keeps what the capacity leaves of its copies.
  constexpr std::uint32_t kExperts = kEp * kLocalExperts;
  std::vector<double> shares(kExperts, 0.9 / (kExperts - 1));
  shares[3] = 0.1;
  form.capacity = 2;
  const double kept = 0.9 + 2.0 / kExperts;
  for (const RankLoad& load : rank_loads(capped_shares(shares, *form.capacity), kEp)) {
    BOOST_TEST(load.kept == kept, boost::test_tools::tolerance(1e-9));
    const double share = load.rank == 0 ? 7 * shares[0] + 2.0 / kExperts : 8 * shares[0];
    const std::uint64_t copies = kTokens * 8;
    BOOST_TEST(std::abs(static_cast<double>(load.of(copies)) - share * kEp * copies) < 1);
    BOOST_TEST(static_cast<double>(exchanged(Planned(form, Direction::forward, kEp, qwen3_30b(), load))) == kept * kAll,
               boost::test_tools::tolerance(1e-4));
  }
  BOOST_TEST(rank_loads(shares, kEp).front().kept == 1.0);
}

BOOST_AUTO_TEST_CASE(padded_experts_get_as_many_rows_and_no_host_waits) {
  RoutedForm form;
  form.capacity = 1.25;
  form.pads = true;
  const Planned padded(form), plain{RoutedForm()};
  for (const LayerStep& step : padded.steps) BOOST_TEST((step.host_waits == HostWait::none));
  using Collectives = std::vector<std::pair<Operation, Bytes>>;
  constexpr Bytes kCopies = kTokens * 8 * 5 / 4;
  const std::pair<Operation, Bytes> copies{Operation::all_to_all, kCopies * 2048 * 2},
      weights{Operation::all_to_all, kCopies * 4};
  const auto all = padded.collectives();
  BOOST_TEST((all == Collectives{copies, weights, copies}));
  double flops = 0, even = 0;
  for (const LayerStep& step : padded.steps) flops += step.kernels.flops;
  for (const LayerStep& step : plain.steps) even += step.kernels.flops;
  const double experts = 2.0 * kTokens * 8 * 2048 * 768 * 3;
  BOOST_TEST(flops - even == experts / 4, boost::test_tools::tolerance(1e-9));
}

BOOST_AUTO_TEST_CASE(shared_experts_run_beside_the_exchanges) {
  ModelShape model = qwen3_30b();
  model.shared_ffn = 1536;
  RoutedForm form;
  form.shared_beside = true;
  for (const Direction direction : {Direction::forward, Direction::backward}) {
    const Planned beside(form, direction, kEp, model), after(RoutedForm(), direction, kEp, model);
    std::uint32_t pairs = 0;
    for (std::size_t i = 0; i + 1 < beside.steps.size(); ++i) {
      if (!beside.steps[i].beside_next) continue;
      ++pairs;
      BOOST_TEST((beside.steps[i].operation == Operation::all_to_all && beside.steps[i].group == RankGroup::ep));
      BOOST_TEST(beside.steps[i].bytes == kTokens * 8 * 2048 * 2);  // of copies, not of their weights
      for (const NamedKernel& kernel : beside.steps[i + 1].kernels.kernels)
        if (kernel.use) BOOST_TEST((kernel.use->linear == Linear::fc1 || kernel.use->linear == Linear::fc2));
    }
    BOOST_TEST(pairs == 2u);
    // The same kernels and exchanges, in another order.
    BOOST_TEST(beside.launches() == after.launches());
    BOOST_TEST(beside.collectives().size() == after.collectives().size());
    double together = 0, apart = 0;
    for (const LayerStep& step : beside.steps) together += step.kernels.seconds;
    for (const LayerStep& step : after.steps) apart += step.kernels.seconds;
    BOOST_TEST(together == apart, boost::test_tools::tolerance(1e-12));
  }
}
