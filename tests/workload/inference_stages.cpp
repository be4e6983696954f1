// Batches in a pipeline of stages against their closed form: p stages of time s, hops f between them, and k batches in
// flight. Sampled tokens go back through the host, here without time. A batch leaves every max((sum of s + f) / k, largest s).
#include "tests/support/serving_run.h"
#include "tests/support/systemc_main.h"

#include <algorithm>
#include <numeric>

using namespace railyard;
using namespace railyard::test;
using namespace railyard::workload::inference;

namespace {

using Use = StageTimes::Use;

/// Sums of times that are rounded one by one.
bool is_near(Time a, Time b) { return since(a, b) + since(b, a) <= Time::ps(20); }

/// A run of many prompts, each of which is a batch, and what its stages do during 24 batches of the steady state.
struct Pipe : ServingBench {
  static constexpr std::uint32_t kTokens = 512;
  static constexpr std::uint32_t kFrom = 101, kBatches = 24;  // whole cycles of 1, 2, 3 and 4 batches in flight

  explicit Pipe(const Scenario& scenario) : ServingBench(scenario) {
    run();
    for (std::uint32_t p = 0; p < instance().pp(); ++p) {
      s.push_back(stage_time(0, p));
      f.push_back(p + 1 < instance().pp() ? hop_time(0, p) : Time());
    }
  }
  Pipe(std::uint32_t pp, const std::string& layers, std::uint32_t in_flight)
      : Pipe(serving_scenario({stages_of(pp, layers), "workload.requests.count=150",
                               "workload.scheduler.max_in_flight=" + std::to_string(in_flight)})) {}

  static Time sum(const std::vector<Time>& times) { return std::accumulate(times.begin(), times.end(), Time()); }
  Time slowest() const { return *std::max_element(s.begin(), s.end()); }
  Time took() const { return between(kFrom, kFrom + kBatches); }
  Time spent(std::uint32_t stage, Use use) const { return ServingBench::spent(kFrom, kFrom + kBatches, stage, use); }
  double rate() const { return kBatches / took().seconds(); }

  std::vector<Time> s, f;
};

struct Shape {
  std::uint32_t stages;
  const char* layers;
};
constexpr Shape kShapes[] = {{2, "[3,3]"}, {2, "[2,4]"}, {2, "[5,1]"}, {3, "[2,2,2]"}, {3, "[1,3,2]"}};

}  // namespace

BOOST_AUTO_TEST_CASE(batches_follow_at_the_closed_forms_pace) {
  for (const auto& [stages, layers] : kShapes) {
    for (std::uint32_t in_flight = 1; in_flight <= stages + 1; ++in_flight) {
      const Pipe pipe(stages, layers, in_flight);
      const Time round = Pipe::sum(pipe.s) + Pipe::sum(pipe.f);
      const Time took = later(Time::fs(round.fs() * (Pipe::kBatches / in_flight)), pipe.slowest() * Pipe::kBatches);
      BOOST_TEST(is_near(pipe.took(), took), layers << ", " << in_flight << " in flight: " << pipe.took().seconds()
                                                    << " instead of " << took.seconds());
      for (std::uint32_t p = 0; p < stages; ++p) {
        BOOST_TEST(is_near(pipe.spent(p, StageTimes::kBusy), pipe.s[p] * Pipe::kBatches),
                   layers << ", " << in_flight << " in flight, stage " << p);
        BOOST_TEST(is_near(pipe.spent(p, StageTimes::kImbalance) + pipe.spent(p, StageTimes::kTransfer) +
                               pipe.spent(p, StageTimes::kTokens),
                           took - pipe.s[p] * Pipe::kBatches));
        for (const Use use : {StageTimes::kNoWork, StageTimes::kFill, StageTimes::kHost})
          BOOST_TEST((pipe.spent(p, use) == Time()));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(a_single_batch_leaves_the_other_stages_idle) {
  // Each stage waits while the batch is on the others, and for each hop.
  for (const auto& [stages, layers] : kShapes) {
    const Pipe pipe(stages, layers, 1);
    const Time on_stages = Pipe::sum(pipe.s), hops = Pipe::sum(pipe.f);
    for (std::uint32_t p = 0; p < stages; ++p) {
      BOOST_TEST(is_near(pipe.spent(p, StageTimes::kImbalance), (on_stages - pipe.s[p]) * Pipe::kBatches));
      BOOST_TEST(is_near(pipe.spent(p, StageTimes::kTransfer), hops * Pipe::kBatches));
      BOOST_TEST((pipe.spent(p, StageTimes::kTokens) == Time()));
    }
  }
}

BOOST_AUTO_TEST_CASE(without_hops_a_single_batch_leaves_p_minus_1_of_p_stages_idle) {
  for (const auto& [stages, layers] : kShapes) {
    Scenario scenario = serving_scenario(
        {stages_of(stages, layers), "workload.requests.count=150", "workload.scheduler.max_in_flight=1"});
    platforms::LinkDatasheet& link = scenario.machine.groups.front().gpu_pcie;
    link.gb_per_s = 1e6;
    link.latency_ns = 0;
    const Pipe pipe(scenario);
    Time busy;
    for (std::uint32_t p = 0; p < stages; ++p) busy += pipe.spent(p, StageTimes::kBusy);
    BOOST_TEST(1 - busy.seconds() / stages / pipe.took().seconds() == (stages - 1.0) / stages,
               boost::test_tools::tolerance(0.01));
  }
}

BOOST_AUTO_TEST_CASE(one_more_batch_than_stages_hides_the_hops) {
  for (const auto& [stages, layers] : kShapes) {
    const Pipe pipe(stages, layers, stages + 1);
    BOOST_TEST_REQUIRE((Pipe::sum(pipe.f) <= pipe.slowest()));
    for (std::uint32_t p = 0; p < stages; ++p) {
      if (pipe.s[p] != pipe.slowest()) continue;
      BOOST_TEST((pipe.spent(p, StageTimes::kBusy) == pipe.took()), layers << " stage " << p);
    }
  }
}

BOOST_AUTO_TEST_CASE(throughput_stops_growing_with_a_batch_for_each_stage) {
  // Up to the hops, which one more batch hides.
  const Shape equal = {3, "[2,2,2]"};
  std::vector<double> rates{0};
  for (std::uint32_t in_flight = 1; in_flight <= 6; ++in_flight)
    rates.push_back(Pipe(equal.stages, equal.layers, in_flight).rate());
  BOOST_TEST(rates[2] == 2 * rates[1], boost::test_tools::tolerance(1e-9));
  BOOST_TEST(rates[3] > 2.5 * rates[1]);
  BOOST_TEST(rates[3] > 0.8 * rates[4]);
  for (const std::uint32_t in_flight : {5u, 6u})
    BOOST_TEST(rates[in_flight] == rates[4], boost::test_tools::tolerance(1e-9));
}

BOOST_AUTO_TEST_CASE(a_lone_answer_cannot_fill_the_pipeline) {
  // A token is computed after the token before it. The request arrives after a millisecond.
  ServingBench bench(serving_scenario(
      {stages_of(3), "workload.requests={list: [{arrival_s: 0.001, prompt_tokens: 512, output_tokens: 20}]}"}));
  bench.run();
  const std::size_t last = bench.steps.size() - 1;
  BOOST_TEST_REQUIRE(last == 19u);
  for (std::uint32_t p = 0; p < 3; ++p) {
    Time busy;
    for (std::uint32_t i = 0; i <= last; ++i) busy += bench.stage_time(i, p);
    const ServingBench::Uses& uses = bench.steps[last].stages[p];
    BOOST_TEST((uses[StageTimes::kBusy] == busy));
    BOOST_TEST((uses[StageTimes::kNoWork] == Time::ms(1)));
    BOOST_TEST((uses[StageTimes::kFill] == bench.steps[last].completed - Time::ms(1) - busy));
  }
}

BOOST_AUTO_TEST_CASE(an_answer_takes_the_round_of_its_token) {
  // TTFT and TPOT on several stages: all stages and hops.
  ServingBench bench(serving_scenario({stages_of(3), "workload.requests={prompt_tokens: 512, output_tokens: 8}"}));
  bench.run();
  const std::vector<Time>& tokens = bench.served.at(0).times.tokens;
  for (std::uint32_t i = 0; i < tokens.size(); ++i) {
    Time round;
    for (std::uint32_t p = 0; p < 3; ++p) round += bench.stage_time(i, p) + (p < 2 ? bench.hop_time(i, p) : Time());
    BOOST_TEST(is_near(tokens[i] - (i == 0 ? Time() : tokens[i - 1]), round), "token " << i);
  }
}

BOOST_AUTO_TEST_CASE(a_hop_is_hidden_state_and_residual_by_nccls_kernels) {
  struct Model {
    const char* config;
    std::uint64_t tensors, hidden;
  };
  const std::string root = kSource + "/";
  for (const Model& m : {Model{"tests/models/tiny.json", 2, 1024}, {"scenarios/models/gpt-126m.json", 1, 768}}) {
    ServingBench bench(tiny_serving(
        {stages_of(2), "model.config=" + root + m.config, "workload.requests={prompt_tokens: 256, output_tokens: 4}"}));
    bench.run();
    for (const std::uint32_t i : {0u, 2u}) {
      const JobRow& hop = bench.hop(i, 0);
      BOOST_TEST(hop.bytes == (i == 0 ? 256 : 1) * m.tensors * m.hidden * 2, m.config);
      BOOST_TEST((hop.end - hop.start > Time::us(4)), m.config);  // a copy of one token would take less than 1 us
    }
  }
}

BOOST_AUTO_TEST_CASE(sampled_tokens_go_back_by_the_engines_way) {
  for (const std::string engine : {"vllm-0.19", "sglang-0.5", "trtllm-1.0"}) {
    ServingBench bench(serving_scenario(
        {stages_of(2), "workload.requests={prompt_tokens: 256, output_tokens: 4}", "workload.engine=" + engine}));
    bench.run();
    BOOST_TEST(bench.records.of("PP_Token_FromP").size() == (engine == "sglang-0.5" ? 4u : 0u), engine);
  }
}
