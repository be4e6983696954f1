// Steps of two micro-batches: which steps are divided, whose turn it is, and what a divided step takes, by closed forms.
#include <algorithm>

#include "tests/support/serving_run.h"
#include "tests/support/systemc_main.h"

using namespace railyard;
using namespace railyard::test;
using namespace railyard::workload::inference;
using transformer::MicroBatchTurns;

namespace {

constexpr std::uint32_t kReplicas = 8, kLayers = 2;
const MicroBatchRules kVllm{MicroBatchTurns::at_exchanges, 32, 512}, kSglang{MicroBatchTurns::in_stages, 0, 0};

/// One sequence for each number of tokens: decodes of one token, others are prompts.
ScheduledBatch batch(const std::vector<std::vector<std::uint32_t>>& tokens_of_replicas) {
  ScheduledBatch batch;
  for (std::uint32_t r = 0; r < tokens_of_replicas.size(); ++r)
    for (const std::uint32_t tokens : tokens_of_replicas[r]) {
      ScheduledBatch::Item& item = batch.items.emplace_back();
      item.tokens = tokens;
      item.is_decode = tokens == 1;
      item.start = item.is_decode ? 100 : 0;
      item.replica = r;
    }
  return batch;
}

/// Two layers with experts, two of eight for each token, and a shared one; eight replicas on one server. Links have only a rate, and
/// messages do not slow the kernels.
Scenario service(double link_gb_per_s, const std::string& engine, const std::vector<std::string>& sets) {
  const Scratch scratch;
  scratch.write("shared.json",
                R"({"architectures": ["Qwen2MoeForCausalLM"], "model_type": "qwen2_moe", "num_hidden_layers": 2,
    "hidden_size": 1024, "num_attention_heads": 8, "num_key_value_heads": 4, "intermediate_size": 2048,
    "moe_intermediate_size": 2048, "shared_expert_intermediate_size": 2048, "num_experts": 8, "num_experts_per_tok": 2,
    "vocab_size": 8192, "tie_word_embeddings": false, "torch_dtype": "bfloat16"})");
  std::vector<std::string> all{"model.config=" + scratch.path("shared.json"), "workload.engine=" + engine,
                               "workload.instances=[{name: a, dp: 8}]"};
  all.insert(all.end(), sets.begin(), sets.end());
  Scenario scenario = tiny_serving(all, "dgx_h100");
  idealise(scenario.machine);
  platforms::GroupSpec& group = scenario.machine.groups.front();
  group.gpu.hbm.gb_per_s = group.gpu.l2.bytes_per_sm_clock = 1e6;
  group.nvlink.gb_per_s = group.gpu.nvlink.gb_per_s = link_gb_per_s;
  return scenario;
}

const std::string kTwo = "workload.experts={exchange: deepep_low_latency, micro_batches: 2}",
                  kOne = "workload.experts={exchange: deepep_low_latency, micro_batches: 1}",
                  kPrompts = "workload.requests={count: 8, arrivals: at_once, prompt_tokens: 1024, output_tokens: 1}";

const JobRow& exchange(const ServingBench& run, bool back, std::uint32_t layer, std::uint32_t half) {
  return run.records.named(
      fmt::format("EP_{}_PP[0]_Layer[{}]_It[0]_Half[{}]", back ? "Combine" : "Dispatch", layer, half));
}

/// Kernels of the micro-batches of an iteration's batch, as they are planned.
Pass planned(ServingBench& run, std::size_t iteration, const MicroBatchRules& rules) {
  const ScheduledBatch& whole = run.steps[iteration].batch;
  Pass pass = plan_pass(run.instance(), whole, workload::Host());
  const auto halves = divide(whole, kReplicas, rules, std::nullopt, CudaGraphs());
  BOOST_TEST_REQUIRE(halves.has_value());
  plan_halves(pass, run.instance(), *halves, rules.turns);
  return pass;
}

double seconds(const gpu::SharedChain& chain) { return chain == nullptr ? 0 : chain->seconds; }

/// Of all kernels of a divided pass.
double kernel_seconds(const Pass& pass) {
  double sum = seconds(pass.embedding) + seconds(pass.head);
  for (const std::vector<Pass::Step>& half : pass.halves.front())
    for (const Pass::Step& step : half) sum += kLayers * seconds(step.kernels);
  return sum;
}

/// What replicas dispatch in all, by rows.
Bytes dispatched(const ServingBench& run) {
  Bytes sum = 0;
  for (const JobRow& row : run.records.of("EP_Dispatch_")) sum += row.bytes;
  return sum;
}

}  // namespace

BOOST_AUTO_TEST_CASE(vllm_divides_tokens_if_all_replicas_have_enough) {
  const CudaGraphs graphs;
  const std::vector<std::uint32_t> decodes(32, 1);
  const auto divided = [&](const std::vector<std::vector<std::uint32_t>>& tokens,
                           std::optional<std::uint64_t> padded = std::nullopt) {
    return divide(batch(tokens), static_cast<std::uint32_t>(tokens.size()), kVllm, padded, graphs);
  };
  BOOST_TEST(divided({decodes, decodes}).has_value());
  BOOST_TEST(!divided({decodes, std::vector<std::uint32_t>(31, 1)}).has_value());
  BOOST_TEST(!divided({decodes, {}}).has_value());
  BOOST_TEST(!divided({{512}, decodes}, 512).has_value());  // the second half of the decodes would be empty
  BOOST_TEST(!divided({{511}, {512}}).has_value());
  BOOST_TEST(!divided({{500, 1}}).has_value());
  BOOST_TEST(!divide(batch({decodes}), 1, {}, std::nullopt, graphs).has_value());
  // Padded to 700 tokens, of which the first half ends in the second prompt of one replica and in the only one of the other.
  const auto halves = divided({{300, 400}, {600}});
  BOOST_TEST_REQUIRE(halves.has_value());
  BOOST_TEST((halves->tokens == std::array<std::uint64_t, 2>{350, 350}));
  BOOST_TEST(halves->pads);
  const std::vector<ScheduledBatch::Item>& second = halves->batches[1].items;
  BOOST_TEST_REQUIRE(second.size() == 2u);
  BOOST_TEST((second[0].start == 50u && second[0].tokens == 350u));
  BOOST_TEST((second[1].start == 350u && second[1].tokens == 250u));
  BOOST_TEST(halves->batches[0].tokens() + halves->batches[1].tokens() == 1300u);
}

BOOST_AUTO_TEST_CASE(sglang_divides_sequences_of_decodes_only) {
  const CudaGraphs graphs;
  const std::vector<std::uint32_t> five(5, 1);
  const auto halves = divide(batch({five, {1}, {}}), 3, kSglang, std::nullopt, graphs);
  BOOST_TEST_REQUIRE(halves.has_value());
  BOOST_TEST(halves->batches[0].of_replica(0).items.size() == 2u);
  BOOST_TEST(halves->batches[1].of_replica(0).items.size() == 3u);
  BOOST_TEST(halves->batches[1].of_replica(1).items.size() == 1u);
  BOOST_TEST(!halves->pads);
  // A graph of 5 tokens has 6, half of which are the first micro-batch.
  const auto in_graph = divide(batch({five}), 1, kSglang, 5, graphs);
  BOOST_TEST_REQUIRE(in_graph.has_value());
  BOOST_TEST((in_graph->tokens == std::array<std::uint64_t, 2>{3, 3}));
  BOOST_TEST(in_graph->batches[0].items.size() == 3u);
  BOOST_TEST(!divide(batch({{1, 200}}), 1, kSglang, std::nullopt, graphs).has_value());
  BOOST_TEST(!divide(batch({{1}, {1}}), 2, kSglang, std::nullopt, graphs).has_value());
}

// Every step of both micro-batches once, each micro-batch in order; the turns of a layer are those of the engines' sources.
BOOST_AUTO_TEST_CASE(turns_are_those_of_the_engines) {
  for (const auto& [rules, expected] :
       {std::make_pair(kVllm, "0Am 0D 1Am 1D 0e 0C 0s 1e 1C 1s 0Am 0D 1Am 1D 0e 0C 0s 1e 1C 1s "),
        std::make_pair(kSglang, "0q 0Am 0D 0s 1q 0e 0C 1Am 1D 1s 0q 1e 1C 0Am 0D 0s 1q 0e 0C 1Am 1D 1s 1e 1C ")}) {
    ServingBench run(
        service(1000, rules.turns == kVllm.turns ? "vllm-0.19" : "sglang-0.5",
                {kTwo, "workload.requests={count: 16, arrivals: at_once, prompt_tokens: 1, output_tokens: 2}"}));
    const auto halves =
        divide(batch(std::vector<std::vector<std::uint32_t>>(kReplicas, std::vector<std::uint32_t>(64, 1))), kReplicas,
               rules, std::nullopt, CudaGraphs());
    BOOST_TEST_REQUIRE(halves.has_value());
    Pass pass = plan_pass(run.instance(), halves->batches[0], workload::Host());
    plan_halves(pass, run.instance(), *halves, rules.turns);
    std::string order;
    std::array<std::uint32_t, 2> exchanges{};
    for (const Turn& turn : turns_of(pass, std::vector<std::uint32_t>(kLayers, 0))) {
      const Pass::Step& step = pass.halves[0][turn.half][turn.step];
      const bool is_attention = step.part == transformer::LayerPart::attention;
      const bool is_back = exchanges[turn.half] % 2 == 1;
      std::string what = is_attention ? "A" : turn.beside ? "s " : is_back ? "e " : "m ";
      if (is_attention && rules.turns == MicroBatchTurns::in_stages && turn.step == 0) what = "q ";
      if (step.is_exchange()) {
        what = is_back ? "C " : "D ";
        ++exchanges[turn.half];
      }
      if (what != "m ") order += std::to_string(turn.half);  // the router follows attention at once
      order += what;
    }
    BOOST_TEST(order == expected);
    run.run();
  }
}

// Two prompts' halves on each rank: exchanges follow each other, and kernels wait for those of their own micro-batch.
BOOST_AUTO_TEST_CASE(a_divided_step_is_a_pipeline_of_two_stages) {
  for (const double link_gb_per_s : {0.5, 5.0, 25.0, 1e6}) {
    BOOST_TEST_INFO_SCOPE(link_gb_per_s);
    ServingBench run(service(link_gb_per_s, "vllm-0.19", {kTwo, kPrompts}));
    run.run();
    BOOST_TEST_REQUIRE(run.steps.size() == 1u);
    const Pass pass = planned(run, 0, kVllm);
    const auto part = [&](std::uint32_t half, const std::vector<std::size_t>& steps) {
      double sum = 0;
      for (const std::size_t s : steps) sum += seconds(pass.halves[0][half][s].kernels);
      return sum;
    };
    // attention | norm, router | dispatch | experts | combine | shared experts
    BOOST_TEST_REQUIRE(pass.halves[0][0].size() == 6u);
    double kernels = run.records.named("It[0]_PP[0]_TP[0]").start.seconds() + seconds(pass.embedding), links = 0;
    std::array<double, 2> there{};  // the latest exchange of each micro-batch
    double received = 0, all_exchanges = 0;
    const double tolerance = 1e-6;
    for (std::uint32_t layer = 0; layer < kLayers; ++layer)
      for (const bool back : {false, true})
        for (const std::uint32_t half : {0u, 1u}) {
          kernels = std::max({kernels, there[half], received}) + (back ? part(half, {3}) : part(half, {0, 1}));
          const JobRow& row = exchange(run, back, layer, half);
          const double takes = (row.end - row.start).seconds();
          all_exchanges += takes;
          const double begins = std::max(kernels, links);
          BOOST_TEST(std::abs(row.start.seconds() - begins) < tolerance);
          received = links;
          links = there[half] = begins + takes;
          if (back) kernels = std::max(kernels, received) + part(half, {5});
        }
    const double end = std::max(kernels, links) + seconds(pass.head);
    const JobRow& rank = run.records.named("It[0]_PP[0]_TP[0]");
    BOOST_TEST(std::abs(rank.end.seconds() - end) < tolerance);
    // Neither the kernels nor the links can be faster than all of their work; with links of no time the kernels are all.
    const double took = (rank.end - rank.start).seconds(), work = kernel_seconds(pass);
    BOOST_TEST(took >= std::max(work, all_exchanges) - tolerance);
    if (link_gb_per_s == 1e6) BOOST_TEST(took <= work + all_exchanges);
    if (link_gb_per_s == 1e6) BOOST_TEST(took < 1.05 * work);
    if (link_gb_per_s == 0.5) BOOST_TEST(took > 0.9 * all_exchanges);
    // The stream of kernels was never idle without a reason that is counted.
    const RankTimes& times = run.service().instance(0).engine().pipeline().times(0);
    BOOST_TEST(std::abs(times.occupied_s - times.kernels_s - times.tp_s) < tolerance);
    BOOST_TEST(std::abs(times.kernels_s - work) < tolerance);
  }
}

// Two copies of each of 1024 tokens, with a header each.
BOOST_AUTO_TEST_CASE(halves_dispatch_together_what_the_whole_does) {
  for (const std::string& experts : {kOne, kTwo}) {
    ServingBench run(service(25, "vllm-0.19", {experts, kPrompts}));
    run.run();
    BOOST_TEST(dispatched(run) == kLayers * 1024u * 2 * (16 + 1024 * 2));
    if (experts == kTwo) BOOST_TEST(exchange(run, false, 0, 0).bytes == exchange(run, false, 0, 1).bytes);
  }
}

// Below the threshold, and with one micro-batch, a run is what it is without the key.
BOOST_AUTO_TEST_CASE(undivided_steps_do_not_change) {
  const auto rows = [](const std::string& experts, std::uint32_t prompt) {
    ServingBench run(
        service(25, "vllm-0.19",
                {experts, fmt::format("workload.requests={{count: 24, arrivals: at_once, prompt_tokens: {}, "
                                      "output_tokens: 4}}",
                                      prompt)}));
    run.run();
    std::string text;
    for (const JobRow& row : run.records.all)
      text += fmt::format("{} {} {} {}\n", row.name(), row.start.fs(), row.end.fs(), row.bytes);
    return text;
  };
  const std::string none = "workload.experts={exchange: deepep_low_latency}";
  BOOST_TEST((rows(kTwo, 150) == rows(none, 150)));
  BOOST_TEST((rows(kOne, 700) == rows(none, 700)));
  BOOST_TEST((rows(kTwo, 700) != rows(none, 700)));
}

// Replays of exchanges change no instant.
BOOST_AUTO_TEST_CASE(replayed_exchanges_are_simulated_ones) {
  for (const std::string engine : {"vllm-0.19", "sglang-0.5"})
    for (const std::string instance : {"dp: 8", "tp: 2, dp: 4"}) {
      BOOST_TEST_INFO_SCOPE(engine << " " << instance);
      const auto tokens = [&](bool simulates) {
        ServingBench run(
            service(25, engine,
                    {kTwo, "workload.instances=[{name: a, " + instance + "}]",
                     "workload.requests={count: 320, arrivals: at_once, prompt_tokens: 20, output_tokens: 6}"}),
            false);
        if (simulates) run.simulation.workload().executor().simulate_every_collective();
        run.run();
        std::vector<Time> all;
        for (const auto& stay : run.served) all.insert(all.end(), stay.times.tokens.begin(), stay.times.tokens.end());
        return all;
      };
      BOOST_TEST((tokens(false) == tokens(true)));
    }
}
