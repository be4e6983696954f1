// Iterations of a serving engine on one GPU against their closed forms: passes of one request, padding to a CUDA graph,
// host time, and the queue.
#include "tests/support/serving_run.h"
#include "tests/support/systemc_main.h"

#include "workload/inference/requests/request_generator.h"

using namespace railyard;
using namespace railyard::test;
using namespace railyard::workload::inference;

namespace {

/// From the end of the step before (the first: from time zero) to the end of this step.
std::vector<Time> gaps(const ServingBench& bench) {
  std::vector<Time> all;
  Time before;
  for (const ServingBench::Step& step : bench.steps) {
    all.push_back(step.completed - before);
    before = step.completed;
  }
  return all;
}

ServingBench::Uses uses(const ServingBench& bench) { return bench.steps.back().stages.front(); }

std::string host(bool is_async, double step_us) {
  return "workload.host=" +
         host_of(std::string("async: ") + (is_async ? "true" : "false") + ", step_us: " + std::to_string(step_us));
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_lone_request_takes_its_passes) {
  // 1200 tokens under a budget of 512: chunks of 512, 512 and 176 tokens, then a pass for each further token.
  ServingBench bench(serving_scenario({"workload.requests={prompt_tokens: 1200, output_tokens: 5}"}));
  bench.run();
  const std::vector<Time>& tokens = bench.served.at(0).times.tokens;
  const Time prefill = bench.pass_time(chunk(0, 512, false)) + bench.pass_time(chunk(512, 512, false)) +
                       bench.pass_time(chunk(1024, 176, true));
  BOOST_TEST((tokens[0] == prefill));
  for (std::uint32_t i = 1; i < 5; ++i)
    BOOST_TEST((tokens[i] - tokens[i - 1] == bench.pass_time(decodes({1200 + i}))), "token " << i);
}

BOOST_AUTO_TEST_CASE(a_batch_of_nine_takes_the_dense_time_of_sixteen) {
  ServingBench bench(serving_scenario({"workload.requests={count: 9, prompt_tokens: 20, output_tokens: 3}"}));
  bench.run();
  const std::vector<Time> took = gaps(bench);
  BOOST_TEST_REQUIRE(took.size() == 3u);  // 180 tokens of prompts, then nine decodes twice
  const ScheduledBatch nine = decodes(std::vector<std::uint64_t>(9, 21));
  BOOST_TEST(bench.steps[1].padded_tokens == 16u);
  BOOST_TEST((took[1] == bench.pass_time(nine, 16)));
  // Only attention and the LM head are those of nine sequences.
  const ScheduledBatch sixteen = decodes(std::vector<std::uint64_t>(16, 21));
  const Pass padded = plan_pass(bench.instance(), nine, workload::Host(), 16);
  const Pass full = plan_pass(bench.instance(), sixteen, workload::Host());
  BOOST_TEST(padded.embedding->seconds == full.embedding->seconds);
  for (std::size_t step = 0; step < full.layers[0].size(); ++step)
    if (full.layers[0][step].part == transformer::LayerPart::mlp)
      BOOST_TEST(padded.layers[0][step].kernels->seconds == full.layers[0][step].kernels->seconds);
  BOOST_TEST((bench.pass_time(nine, 16) > bench.pass_time(nine)));
  BOOST_TEST((bench.pass_time(nine, 16) <= bench.pass_time(sixteen)));
}

BOOST_AUTO_TEST_CASE(tensorrt_llm_brings_its_own_attention) {
  const std::uint64_t context = 30000;  // so long that parts of it are joined, which the libraries do differently
  const auto layer_seconds = [&](const std::string& engine) {
    ServingBench bench(serving_scenario({"workload.engine=" + engine}));
    const Pass pass = plan_pass(bench.instance(), decodes({context}), workload::Host());
    double seconds = 0;
    for (const Pass::Step& step : pass.layers[0])
      if (step.kernels) seconds += step.kernels->seconds;
    return seconds;
  };
  const auto attention_seconds = [&](gpu::AttentionLibrary library) {
    const Scenario scenario = serving_scenario();
    const transformer::ModelShape& model = scenario.model;
    gpu::AttentionHeads heads{model.heads, model.kv_heads, model.head_dim, model.kv_dtype};
    heads.library = library;
    return gpu::decode_attention_time(scenario.machine.groups.front().gpu, heads, gpu::one_token_each({context}))
        .seconds;
  };
  const double gain =
      attention_seconds(gpu::AttentionLibrary::flash) - attention_seconds(gpu::AttentionLibrary::trtllm);
  BOOST_TEST_REQUIRE(gain > 0);
  BOOST_TEST(layer_seconds("vllm-0.19") - layer_seconds("trtllm-1.0") == gain, boost::test_tools::tolerance(1e-6));
  BOOST_TEST(layer_seconds("vllm-0.19") == layer_seconds("sglang-0.5"));
}

BOOST_AUTO_TEST_CASE(the_host_launches_what_is_not_in_a_graph) {
  // Six layers. Launches of 5 ms are longer than kernels, so a pass takes six launches and the kernels of the last layer;
  // attention is launched with the layer's other kernels. A synchronous host launches nothing before the pass before is over.
  const Time launches = Time::ms(5) * 6;
  struct Launched {
    const char *graphs, *key;  // of the host's time
    bool prompt, decodes;
  };
  for (const Launched& mode : {Launched{"{mode: full}", "layer_us", true, false},
                               {"{mode: piecewise}", "layer_us", true, true},
                               {"{mode: none}", "eager_layer_us", true, true},
                               {"{mode: none}", "layer_us", false, false},
                               {"{mode: decode}", "eager_layer_us", true, false},
                               {"{mode: decode, max_tokens: 1}", "eager_layer_us", true, true},
                               {"{mode: full, max_tokens: 1}", "layer_us", true, true},
                               {"{mode: full}", "eager_layer_us", false, false}}) {
    BOOST_TEST_INFO_SCOPE(mode.graphs);
    const std::vector<std::string> sets{"workload.requests={count: 2, prompt_tokens: 100, output_tokens: 4}",
                                        "workload.scheduler.max_in_flight=1",
                                        std::string("workload.cudagraph=") + mode.graphs};
    ServingBench graphs(serving_scenario(sets));
    graphs.run();
    std::vector<std::string> with_host = sets;
    with_host.push_back("workload.host=" + host_of(std::string(mode.key) + ": 5000"));
    ServingBench bench(serving_scenario(with_host));
    bench.run();
    const std::vector<Time> alone = gaps(graphs), took = gaps(bench);
    BOOST_TEST_REQUIRE(took.size() == 4u);  // both prompts, then three steps
    for (std::size_t i = 0; i < took.size(); ++i) {
      if (i == 0 ? mode.prompt : mode.decodes) {
        BOOST_TEST((took[i] > launches), "step " << i);
        BOOST_TEST((took[i] < launches + alone[i]), "step " << i);
      } else {
        BOOST_TEST((took[i] == alone[i]), "step " << i);
      }
    }
    BOOST_TEST(graphs.steps[1].padded_tokens == 2u);
  }
}

BOOST_AUTO_TEST_CASE(a_synchronous_step_takes_host_and_gpu_time) {
  const Time h = Time::us(300);
  ServingBench bench(serving_scenario({host(false, 300), "workload.requests={prompt_tokens: 512, output_tokens: 30}"}));
  bench.run();
  const std::vector<Time> took = gaps(bench);
  for (std::uint32_t i = 0; i < took.size(); ++i) BOOST_TEST((took[i] == h + bench.stage_time(i, 0)), "step " << i);
  BOOST_TEST((uses(bench)[StageTimes::kHost] == h * 30));
}

BOOST_AUTO_TEST_CASE(an_asynchronous_step_takes_the_longer_of_host_and_gpu_time) {
  for (const double us : {40.0, 2000.0}) {
    const Time h = Time::seconds(us * 1e-6);
    ServingBench bench(serving_scenario({host(true, us), "workload.requests={prompt_tokens: 512, output_tokens: 30}"}));
    bench.run();
    const std::vector<Time> took = gaps(bench);
    for (std::uint32_t i = 2; i < took.size(); ++i) {
      // A slow host prepares at its own pace; a pass ends g after its preparation.
      const Time g = bench.stage_time(i, 0);
      if (h < g) {
        BOOST_TEST((took[i] == g), us << " us, step " << i);
      } else {
        BOOST_TEST((took[i] == h + g - bench.stage_time(i - 1, 0)), us << " us, step " << i);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(a_request_joins_the_batch_after_the_one_that_is_composed) {
  // A lone answer; while batch n runs, n+1 is composed. With a synchronous host it is composed after n.
  for (const bool is_async : {false, true}) {
    ServingBench bench(serving_scenario(
        {host(is_async, 10),
         "workload.requests={list: [{prompt_tokens: 512, output_tokens: 40}, {arrival_s: 0.0061, prompt_tokens: 64, "
         "output_tokens: 2}]}"}));
    bench.run();
    std::size_t running = 0, joined = 0;
    for (std::size_t i = 0; i < bench.steps.size(); ++i) {
      if (bench.steps[i].begun <= Time::us(6100)) running = i;
      for (const ScheduledBatch::Item& item : bench.steps[i].batch.items)
        if (item.request == 1 && item.is_first) joined = i;
    }
    BOOST_TEST_REQUIRE((bench.steps[running].completed > Time::us(6100)));
    BOOST_TEST(joined == running + (is_async ? 2 : 1));
  }
}

BOOST_AUTO_TEST_CASE(full_output_runs_as_many_requests_as_fit_whole) {
  // 100 + 37 tokens take 9 blocks of 16; of the blocks, one is reserved.
  for (const std::uint32_t blocks : {9u, 17u, 18u, 80u, 81u, 200u}) {
    ServingBench bench(
        serving_scenario({"workload.requests={count: 40, prompt_tokens: 100, output_tokens: 37}",
                          "workload.engine=trtllm-1.0", "workload.scheduler={max_batched_tokens: 8192, max_seqs: 64}",
                          "workload.kv_blocks=" + std::to_string(blocks + 1)}));
    bench.run();
    std::size_t most = 0;
    for (const ServingBench::Step& step : bench.steps) most = std::max(most, step.running);
    BOOST_TEST(most == std::min<std::size_t>(40, blocks / 9), blocks << " blocks");
    for (const Stay& served : bench.served) BOOST_TEST(served.counts.preemptions == 0u);
  }
}

BOOST_AUTO_TEST_CASE(waits_are_those_of_a_queue) {
  // Equal prompts, one token each, one at a time, Poisson arrivals: M/D/1.
  constexpr std::uint32_t kRequests = 200'000;
  Time s;
  for (const double rho : {0.0, 0.5, 0.8, 0.9}) {
    Scenario scenario = serving_scenario({"workload.scheduler={max_batched_tokens: 512, max_seqs: 1}"});
    scenario.model.layers = 1;
    ServingSpec& spec = std::any_cast<ServingSpec&>(scenario.workload);
    spec.instances.front().mapping.stage_layers = {1};
    GeneratorSpec requests;
    requests.prompt_tokens = UniformTokens{64, 64};
    requests.output_tokens = UniformTokens{1, 1};
    requests.count = rho > 0 ? kRequests : 1;
    if (rho > 0) {
      requests.arrivals = ArrivalProcess::poisson;
      requests.stages = {{rho / s.seconds(), Time::max()}};
    }
    spec.requests = [requests] { return std::make_unique<RequestGenerator>(requests, 1); };
    ServingBench bench(scenario);
    bench.run();
    if (rho == 0) {
      s = bench.served.front().times.last_token;
      continue;
    }
    Time idle_from;  // Lindley's recursion
    double waited = 0;
    for (const Stay& served : bench.served) {
      const Time begun = later(served.request.arrival, idle_from);
      BOOST_TEST_REQUIRE((served.prefill_begun() == begun));
      waited += (begun - served.request.arrival).seconds();
      idle_from = begun + s;
    }
    // The load that was drawn: near saturation, its sampling error of 0.2 % changes the mean wait by 2 %.
    const double load = kRequests * s.seconds() / bench.served.back().request.arrival.seconds();
    BOOST_TEST(load == rho, boost::test_tools::tolerance(0.01));
    BOOST_TEST(waited / kRequests == load * s.seconds() / (2 * (1 - load)), boost::test_tools::tolerance(0.03));
  }
}

BOOST_AUTO_TEST_CASE(one_process_takes_requests_one_by_one) {
  ServingBench bench(serving_scenario({"workload.requests={count: 3, prompt_tokens: 100, output_tokens: 2}",
                                       "workload.host=" + host_of("request_us: 700"), "workload.client_us=300"}));
  bench.run();
  for (std::size_t i = 0; i < bench.served.size(); ++i)
    BOOST_TEST(bench.served[i].times.queued.fs() == Time::us(300 + 700 * (i + 1)).fs(), "request " << i);
  // Clients do not wait for each other.
  BOOST_TEST((bench.records.named("Client_Request_Req[2]").end == Time::us(300)));
  BOOST_TEST((bench.records.named("Host_Request_Req[2]").start == Time::us(300 + 2 * 700)));
}

BOOST_AUTO_TEST_CASE(a_decode_of_four_tokens_takes_the_pass_of_four_tokens) {
  // Of 13 tokens of the answer the prompt's pass produces one, and three passes four each: a token and three right guesses.
  Scenario scenario = serving_scenario({"workload.requests={prompt_tokens: 512, output_tokens: 13}"});
  workload::inference::DraftSpec& drafts =
      std::any_cast<ServingSpec&>(scenario.workload).instances.front().scheduler.drafts;
  drafts.tokens = 3;
  drafts.acceptance = {1, 1, 1};
  ServingBench bench(scenario);
  bench.run();
  const auto four = [](std::uint64_t context) {
    ScheduledBatch batch;
    batch.items.push_back(decode(0, context, 4));
    return batch;
  };
  const std::vector<Time> took = gaps(bench);
  BOOST_TEST_REQUIRE(took.size() == 4u);
  BOOST_TEST((took[0] == bench.pass_time(chunk(0, 512, true))));
  for (std::uint32_t i = 1; i <= 3; ++i) {
    BOOST_TEST(bench.steps[i].batch.tokens() == 4u);
    BOOST_TEST((bench.steps[i].decodes == 1 && bench.steps[i].prompts == 0));
    BOOST_TEST((took[i] == bench.pass_time(four(512 + 4 * i))));
    // Attention of four queries costs more than of one, the reading of weights no more.
    BOOST_TEST((took[i] > bench.pass_time(decodes({512 + 4 * i}))));
    BOOST_TEST((took[i] < bench.pass_time(decodes({509 + 4 * i})) * 2));
  }
  const std::vector<Time>& tokens = bench.served.at(0).times.tokens;
  BOOST_TEST_REQUIRE(tokens.size() == 13u);
  for (std::uint32_t i = 1; i < 13; ++i) BOOST_TEST(((tokens[i] == tokens[i - 1]) == (i % 4 != 1)), "token " << i);
  BOOST_TEST(bench.service().instance(0).engine().tokens_done() == 512u + 12);
}
