// Speculative decoding against its closed forms: how many drafts are right, the passes that verify them, CUDA graphs, and
// metrics.
#include "tests/support/serving_run.h"
#include "tests/support/systemc_main.h"

#include <cmath>

#include "workload/inference/scheduler/acceptance.h"

using namespace railyard;
using namespace railyard::test;
using namespace railyard::workload::inference;

namespace {

DraftSpec drafts_of(std::vector<double> acceptance, std::uint64_t seed = 1) {
  DraftSpec spec;
  spec.tokens = static_cast<std::uint32_t>(acceptance.size());
  spec.acceptance = std::move(acceptance);
  spec.seed = seed;
  return spec;
}

/// Mean tokens of a step over many steps of a few requests, each step from the token after the last one.
double drawn_tokens_per_step(const DraftSpec& spec) {
  constexpr std::uint32_t kRequests = 20, kSteps = 5000;
  const Acceptance acceptance(spec);
  double tokens = 0;
  for (std::uint32_t request = 0; request < kRequests; ++request) {
    std::uint64_t token = 1;
    for (std::uint32_t step = 0; step < kSteps; ++step) token += 1 + acceptance.right(request, token, spec.tokens);
    tokens += static_cast<double>(token - 1);
  }
  return tokens / (kRequests * kSteps);
}

std::string speculation(const std::string& rest) { return "workload.speculation={method: ngram, " + rest + "}"; }

}  // namespace

BOOST_AUTO_TEST_CASE(a_step_gives_the_sum_of_powers_of_the_acceptance) {
  for (const double a : {0.0, 0.3, 0.7, 0.9})
    for (const std::uint32_t k : {1u, 3u, 8u}) {
      const std::vector<double> rates = acceptance_of_ratio(a, k);
      const double expected = (1 - std::pow(a, k + 1.0)) / (1 - a);
      BOOST_TEST_INFO_SCOPE("a " << a << ", k " << k);
      BOOST_TEST(tokens_per_step(rates) == expected, boost::test_tools::tolerance(1e-12));
      BOOST_TEST(drawn_tokens_per_step(drafts_of(rates)) == expected, boost::test_tools::tolerance(a == 0 ? 0 : 0.01));
    }
}

BOOST_AUTO_TEST_CASE(positions_and_lengths_give_their_own_means) {
  // By position: that a draft and all before it are right. MiniMax-M3 with EAGLE-3: 2.58 tokens a step.
  const std::vector<double> rates = acceptance_of_positions({0.72, 0.50, 0.36});
  BOOST_TEST(tokens_per_step(rates) == 1 + 0.72 + 0.50 + 0.36, boost::test_tools::tolerance(1e-12));
  BOOST_TEST(drawn_tokens_per_step(drafts_of(rates)) == 2.58, boost::test_tools::tolerance(0.01));
  BOOST_TEST(tokens_per_step(acceptance_of_positions({0.5, 0, 0})) == 1.5);
  // vLLM's synthetic lengths: the same steps, one in so many with a token more.
  BOOST_TEST((acceptance_of_length(2.75, 3) == std::vector<double>{1, 0.75, 0}));
  BOOST_TEST((acceptance_of_length(1, 2) == std::vector<double>{0, 0}));
  BOOST_TEST((acceptance_of_length(3, 2) == std::vector<double>{1, 1}));
  BOOST_TEST(drawn_tokens_per_step(drafts_of(acceptance_of_length(2.75, 3))) == 2.75,
             boost::test_tools::tolerance(0.01));
}

BOOST_AUTO_TEST_CASE(a_draw_belongs_to_the_request_and_its_token) {
  const Acceptance three(drafts_of(acceptance_of_ratio(0.6, 3))), five(drafts_of(acceptance_of_ratio(0.6, 5))),
      other(drafts_of(acceptance_of_ratio(0.6, 3), 2));
  std::uint32_t differ = 0, equal_requests = 0;
  for (std::uint64_t token = 0; token < 500; ++token) {
    // More drafts find the same tokens right; so does a step that begins one token later.
    BOOST_TEST(three.right(7, token, 3) == std::min(3u, five.right(7, token, 5)));
    if (const std::uint32_t right = five.right(7, token, 5); right > 0)
      BOOST_TEST(five.right(7, token + 1, 4) == right - 1);
    BOOST_TEST(three.right(7, token, 2) == std::min(2u, three.right(7, token, 3)));
    differ += three.right(7, token, 3) != other.right(7, token, 3);
    equal_requests += three.right(7, token, 1) == three.right(8, token, 1);
  }
  BOOST_TEST((differ > 200u && differ < 450u));
  BOOST_TEST(equal_requests / 500.0 == 0.6 * 0.6 + 0.4 * 0.4, boost::test_tools::tolerance(0.15));
}

BOOST_AUTO_TEST_CASE(a_step_takes_the_pass_of_its_drafts) {
  ServingBench bench(serving_scenario({"workload.requests={prompt_tokens: 512, output_tokens: 40}",
                                       speculation("tokens: 3, acceptance: 0.6"), "workload.cudagraph={mode: none}"}));
  bench.run();
  const Acceptance acceptance(bench.service().instance(0).spec().scheduler.drafts);
  const std::vector<Time>& tokens = bench.served.at(0).times.tokens;
  BOOST_TEST_REQUIRE(tokens.size() == 40u);
  std::uint64_t known = 1;
  Time at = tokens[0];
  for (std::size_t step = 1; step < bench.steps.size(); ++step) {
    const std::uint64_t produced = 1 + acceptance.right(0, known, 3);
    ScheduledBatch pass;
    pass.items.push_back(decode(0, 512 + known + 3, 4));
    at += bench.pass_time(pass);
    BOOST_TEST((bench.steps[step].completed == at), "step " << step);
    for (std::uint64_t token = known; token < std::min<std::uint64_t>(40, known + produced); ++token)
      BOOST_TEST((tokens[token] == at), "token " << token);
    known += produced;
  }
  BOOST_TEST(known >= 40u);
}

BOOST_AUTO_TEST_CASE(graphs_hold_whole_decodes) {
  CudaGraphs graphs;
  for (std::uint64_t tokens = 1; tokens <= 600; ++tokens) {  // the list of config/vllm.py
    const std::uint64_t size = tokens <= 2     ? tokens
                               : tokens <= 4   ? 4
                               : tokens <= 248 ? ceil_div(tokens, 8) * 8
                               : tokens <= 512 ? ceil_div(tokens, 16) * 16
                                               : tokens;
    BOOST_TEST(graphs.padded(true, tokens) == size);
  }
  // 1, 2, 4, 8, 16 become 3, 6, 9, 18: the next multiples of a decode's tokens. 512 would become 513, so 496 is the last one.
  graphs.decode_tokens = 3;
  for (const auto& [tokens, size] : std::vector<std::pair<std::uint64_t, std::uint64_t>>{{1, 3},
                                                                                         {3, 3},
                                                                                         {4, 6},
                                                                                         {6, 6},
                                                                                         {9, 9},
                                                                                         {12, 18},
                                                                                         {18, 18},
                                                                                         {21, 24},
                                                                                         {24, 24},
                                                                                         {27, 33},
                                                                                         {480, 480},
                                                                                         {498, 498},
                                                                                         {501, 501}})
    BOOST_TEST(graphs.padded(true, tokens) == size, tokens << " tokens");
  BOOST_TEST((graphs.launch(true, 498) == workload::LayerLaunch::nothing));
  BOOST_TEST((graphs.launch(true, 501) == workload::LayerLaunch::attention));
  BOOST_TEST((graphs.launch(false, 18) == workload::LayerLaunch::attention));
}

BOOST_AUTO_TEST_CASE(nothing_right_takes_as_many_steps_as_no_drafts) {
  const auto steps = [](const std::vector<std::string>& sets) {
    ServingBench bench(serving_scenario(sets));
    bench.run();
    return bench.steps.size();
  };
  const std::string requests = "workload.requests={count: 3, prompt_tokens: 100, output_tokens: 30}";
  const std::size_t alone = steps({requests});
  BOOST_TEST(steps({requests, speculation("tokens: 4, acceptance: 0")}) == alone);
  BOOST_TEST(steps({requests, speculation("tokens: 4, synthetic_length: 5")}) == 1 + ceil_div(29, 5));
}
