// One instance that prefills and one that decodes: the KV of each prompt crosses the fabric once, and all blocks are free
// at the end.
#include "tests/support/serving_run.h"
#include "tests/support/systemc_main.h"

using namespace railyard;
using namespace railyard::test;
using namespace railyard::workload::inference;

namespace {

const std::string kTwoShapes =
    "workload.instances=[{name: p, role: prefill, tp: 2}, {name: d, role: decode, pp: 2, gpus: [4, 5]}]";
const std::string kPair = "workload.instances=[{name: d, role: decode, gpus: [4]}, {name: p, role: prefill}]";
const std::string kThree =
    "workload.requests={list: [{prompt_tokens: 1000, output_tokens: 20}, {prompt_tokens: 77, output_tokens: 1}, "
    "{arrival_s: 0.01, prompt_tokens: 1024, output_tokens: 3}]}";

/// Runs a pair, and checks what holds for every pair.
void run_pair(ServingBench& run) {
  run.run();
  for (const Stay& served : run.served)
    BOOST_TEST((served.kv_landed() >= served.prefilled() && served.times.last_token >= served.kv_landed()));
}

Bytes kv_sent(ServingBench& run) { return run.simulation.fabric().ledger().totals(number(TrafficClass::kv)).bytes; }

}  // namespace

BOOST_AUTO_TEST_CASE(the_kv_of_each_prompt_is_fetched_once) {
  ServingBench run(tiny_serving({kThree, kTwoShapes, "workload.scheduler={max_seqs: 64, prefix_caching: false}"}));
  run_pair(run);
  Bytes of_token = 0;  // over all ranks
  Grid& decode = run.service().instance(1).grid();
  for (std::uint32_t r = 0; r < decode.ranks(); ++r) of_token += decode.kv().bytes_per_token(r / decode.tp());
  BOOST_TEST(kv_sent(run) == (1000 + 77 + 1024) * of_token);  // the second instance computes even an only token
}

BOOST_AUTO_TEST_CASE(a_prefix_that_is_there_already_is_not_fetched) {
  // Both prompts of a user begin with 512 shared tokens; the second request follows the first one's answer.
  ServingBench run(tiny_serving(
      {"workload.requests={count: 2, prompt_tokens: 1000, output_tokens: 5, prefix: {groups: 1, users_per_group: 1, "
       "shared_tokens: 512}}",
       kPair}));
  run_pair(run);
  const Bytes of_token = run.service().instance(1).grid().kv().bytes_per_token(0);
  BOOST_TEST(kv_sent(run) == (1000 + 1000 - 512) * of_token);
}

BOOST_AUTO_TEST_CASE(a_lone_handoff_takes_the_time_of_its_message) {
  const std::string one = "workload.requests={list: [{prompt_tokens: 1024, output_tokens: 4}]}";
  ServingBench run(tiny_serving({one, kPair}));
  run_pair(run);
  const Time transfer = run.served[0].kv_landed() - run.served[0].prefilled();
  const Time alone = run.simulation.fabric().uncontended(
      run.service().instance(0).grid().rank(0).gpu->window(), run.service().instance(1).grid().rank(0).gpu->window(),
      number(TrafficClass::kv), 1024 * run.service().instance(1).grid().kv().bytes_per_token(0),
      transport::Engine::copy_engine);
  BOOST_TEST(transfer.fs() == alone.fs());
}

// A lone request on an empty pair, by the host's times (us) and the times of kernels and the message:
//   vLLM          request 700, step 100, prompt, token 30, request 700, 12 descriptors of 3.75, KV, step 100, a decode of the last token, token 30
//   TensorRT-LLM  request 700, step 100, prompt, token 30, request 700, a descriptor of 3.75, kernel, KV, kernel, token 30
BOOST_AUTO_TEST_CASE(the_first_token_follows_the_kv_by_the_engines_rule) {
  for (const double gb_per_s : {50.0, 1.0}) {
    for (const std::string engine : {"vllm-0.19", "trtllm-1.0"}) {
      BOOST_TEST_INFO_SCOPE(engine << ", " << gb_per_s << " GB/s");
      Scenario scenario = serving_scenario(
          {"workload.requests={prompt_tokens: 512, output_tokens: 3}", kPair, "workload.engine=" + engine,
           "workload.host=" + host_of("async: false, request_us: 700, token_us: 30, step_us: 100")});
      scenario.machine.groups.front().gpu_pcie.gb_per_s = gb_per_s;
      ServingBench run(scenario);
      run_pair(run);
      const Time kv = run.simulation.fabric().uncontended(
          run.service().instance(0).grid().rank(0).gpu->window(),
          run.service().instance(1).grid().rank(0).gpu->window(), number(TrafficClass::kv),
          512 * run.service().instance(1).grid().kv().bytes_per_token(0), transport::Engine::copy_engine);
      const ScheduledBatch prompt = chunk(0, 512, true), first = decodes({512}), second = decodes({513});
      Stay& served = run.served[0];
      const Time prefill = run.pass_time(prompt);
      const bool computes = engine == "vllm-0.19";
      const Time step = computes ? Time::us(100) + run.pass_time(first) : Time();
      const Time posts = Time::seconds((computes ? 12 : 1) * 3.75e-6), staging = served.ttft[TtftPart::kv_staging];
      BOOST_TEST((staging > Time()) == !computes);
      BOOST_TEST((served.times.first_token ==
                  Time::us(800) + prefill + Time::us(730) + posts + staging + kv + step + Time::us(30)));
      BOOST_TEST((served.ttft[TtftPart::kv] == kv));
      BOOST_TEST((served.ttft[TtftPart::prefill_kernels] == prefill));
      BOOST_TEST((served.ttft[TtftPart::decode_kernels] == (computes ? run.pass_time(first) : Time())));
      BOOST_TEST((served.ttft[TtftPart::host] == Time::us(1560) + (computes ? Time::us(100) : Time())));
      BOOST_TEST((served.times.tokens[1] - served.times.tokens[0] == Time::us(100) + run.pass_time(second)));
    }
  }
}

BOOST_AUTO_TEST_CASE(sglang_brings_the_first_token_when_the_kv_is_there) {
  for (const std::uint32_t tokens : {1u, 3u}) {
    ServingBench run(
        tiny_serving({"workload.requests={prompt_tokens: 1024, output_tokens: " + std::to_string(tokens) + "}", kPair,
                      "workload.engine=sglang-0.5", "workload.scheduler={max_batched_tokens: 256, max_seqs: 64}"}));
    run_pair(run);
    Stay& served = run.served[0];
    BOOST_TEST((served.times.first_token == later(served.prefilled(), served.kv_landed())));
    BOOST_TEST((served.ttft[TtftPart::kv] == served.kv_landed() - served.prefilled()));
    BOOST_TEST(served.ttft[TtftPart::decode_kernels].fs() == 0u);
  }
}

// 59 blocks; four requests of 200 + 400 tokens, one at a time. The first one outgrows what is free beside the KV of the others.
BOOST_AUTO_TEST_CASE(requests_whose_kv_is_there_pass_a_head_that_needs_their_blocks) {
  for (const std::string handoff : {"pull", "push_per_chunk"}) {
    ServingBench run(tiny_serving(
        {"workload.requests={count: 4, prompt_tokens: 200, output_tokens: 400}", "workload.kv_transfer.mode=" + handoff,
         "workload.instances=[{name: p, role: prefill}, {name: d, role: decode, gpus: [4], kv_blocks: 60, "
         "scheduler: {max_seqs: 1, max_batched_tokens: 2048}}]"}));
    run_pair(run);
    BOOST_TEST(run.served[0].counts.preemptions > 0u);
  }
}

BOOST_AUTO_TEST_CASE(a_pool_that_holds_one_prompt_decodes_one_after_the_other) {
  ServingBench run(tiny_serving(
      {"workload.requests={count: 3, prompt_tokens: 1000, output_tokens: 20}", kPair, "workload.kv_blocks=66"}));
  run_pair(run);
  std::vector<Time> begun, done;
  for (const Stay& served : run.served) {
    begun.push_back(served.kv_landed());
    done.push_back(served.times.last_token);
  }
  for (std::size_t i = 1; i < begun.size(); ++i) BOOST_TEST((begun[i] >= done[i - 1]), "request " << i);
}

BOOST_AUTO_TEST_CASE(kv_that_is_sent_while_it_is_computed_crosses_once_too) {
  for (const std::string grain : {"push_per_layer", "push_per_chunk", "push_at_end"}) {
    ServingBench run(
        tiny_serving({kThree, kTwoShapes, "workload.kv_transfer.mode=" + grain,
                      "workload.scheduler={max_seqs: 64, max_batched_tokens: 256, prefix_caching: false}"}));
    run_pair(run);
    Bytes of_token = 0;
    Grid& decode = run.service().instance(1).grid();
    for (std::uint32_t r = 0; r < decode.ranks(); ++r) of_token += decode.kv().bytes_per_token(r / decode.tp());
    BOOST_TEST(kv_sent(run) == (1000 + 77 + 1024) * of_token, grain);
    for (const Stay& served : run.served) BOOST_TEST(served.instance() == 1u);
  }
}

BOOST_AUTO_TEST_CASE(a_prefix_of_the_first_instance_is_sent_and_one_of_the_second_is_not) {
  // The second request finds 512 shared tokens on both instances, or only on the one that prefills.
  for (const bool both : {true, false}) {
    const std::string decode = both ? "{name: d, role: decode, gpus: [4]}"
                                    : "{name: d, role: decode, gpus: [4], scheduler: {prefix_caching: false}}";
    ServingBench run(tiny_serving(
        {"workload.requests={count: 2, prompt_tokens: 1000, output_tokens: 5, prefix: {groups: 1, users_per_group: 1, "
         "shared_tokens: 512}}",
         "workload.instances=[{name: p, role: prefill}, " + decode + "]", "workload.kv_transfer.mode=push_per_chunk",
         "workload.scheduler={max_seqs: 64, max_batched_tokens: 256}"}));
    run_pair(run);
    BOOST_TEST(run.served[1].counts.cached_tokens == 512u);
    BOOST_TEST(kv_sent(run) ==
               (both ? 1000 + 1000 - 512 : 2000) * run.service().instance(1).grid().kv().bytes_per_token(0));
  }
}

BOOST_AUTO_TEST_CASE(the_earlier_kv_is_sent_the_earlier_it_lands) {
  const std::string one = "workload.requests={list: [{prompt_tokens: 1024, output_tokens: 4}]}";
  std::vector<Time> exposed;
  for (const std::string grain : {"push_per_layer", "push_per_chunk", "push_at_end", "pull"}) {
    ServingBench run(
        tiny_serving({one, kPair, "workload.kv_transfer.mode=" + grain, "workload.scheduler.max_batched_tokens=256"}));
    run_pair(run);
    exposed.push_back(run.served[0].kv_landed() - run.served[0].prefilled());
  }
  BOOST_TEST((exposed[0] <= exposed[1]));
  BOOST_TEST((exposed[1] < exposed[2]));
  BOOST_TEST((exposed[2] < exposed[3]));
}

BOOST_AUTO_TEST_CASE(a_prompt_whose_kv_is_sent_waits_for_memory_before_prefill) {
  // 65 blocks of the second instance hold one request; the first instance holds all.
  ServingBench run(tiny_serving(
      {"workload.requests={count: 3, prompt_tokens: 1000, output_tokens: 20}",
       "workload.kv_transfer.mode=push_per_chunk",
       "workload.instances=[{name: p, role: prefill}, {name: d, role: decode, gpus: [4], kv_blocks: 66}]"}));
  run_pair(run);
  BOOST_TEST((run.service().instance(0).scheduler().memory().total > 3 * 65));
  for (std::uint32_t i = 1; i < 3; ++i) {
    Stay& served = run.served[i];
    const Time before = run.served[i - 1].times.last_token;
    BOOST_TEST(served.prefill_begun().fs() == before.fs());
    BOOST_TEST(served.ttft[TtftPart::decode_queue].fs() == before.fs());  // all arrive at time zero
    Time sum;
    for (const Time part : served.ttft.all()) sum += part;
    BOOST_TEST(sum.fs() == served.times.first_token.fs());
  }
}

BOOST_AUTO_TEST_CASE(a_loaded_pair_that_sends_kv_serves_all_under_all_schedulers) {
  const std::string load =
      "workload.requests={count: 60, arrivals: poisson, rate_per_s: 5000, prompt_tokens: {lognormal: {mean: 400, "
      "cv_ratio: 0.8}}, output_tokens: {lognormal: {mean: 30, cv_ratio: 0.8}}}";
  std::uint32_t preemptions = 0;
  for (const std::string engine : {"vllm-0.19", "sglang-0.5", "trtllm-1.0"}) {
    ServingBench run(
        tiny_serving({load, kTwoShapes, "workload.kv_transfer.mode=push_per_layer", "workload.kv_blocks=180",
                      "workload.scheduler.max_batched_tokens=384", "workload.engine=" + engine}));
    run_pair(run);
    BOOST_TEST(run.served.size() == 60u);
    for (const Stay& one : run.served) preemptions += one.counts.preemptions;
  }
  BOOST_TEST(preemptions > 0u);
}

BOOST_AUTO_TEST_CASE(a_fetch_posts_its_descriptors_first) {
  // 1000 tokens: 63 blocks of 16, keys and values of six layers. On an empty pair all blocks are neighbours.
  const std::string one = "workload.requests={list: [{prompt_tokens: 1000, output_tokens: 4}]}";
  struct Case {
    std::string connector;
    std::uint64_t descriptors;
  };
  for (const auto& [connector, descriptors] :
       {Case{"merges_adjacent: false", 63 * 6 * 2}, Case{"merges_adjacent: true", 6 * 2},
        Case{"merges_adjacent: false, cross_layer_blocks: true", 63}}) {
    BOOST_TEST_INFO_SCOPE(connector);
    ServingBench run(tiny_serving({one, kPair, "workload.kv_transfer={descriptor_us: 10, " + connector + "}"}));
    run_pair(run);
    const Stay& served = run.served[0];
    const auto& parts = served.ttft.all();
    const Time post = Time::seconds(static_cast<double>(descriptors) * 10e-6);
    BOOST_TEST((parts[static_cast<std::size_t>(TtftPart::kv_post)] == post));
    const Time alone = run.simulation.fabric().uncontended(
        run.service().instance(0).grid().rank(0).gpu->window(), run.service().instance(1).grid().rank(0).gpu->window(),
        number(TrafficClass::kv), 1000 * run.service().instance(1).grid().kv().bytes_per_token(0),
        transport::Engine::copy_engine);
    BOOST_TEST((parts[static_cast<std::size_t>(TtftPart::kv)] == alone));
    BOOST_TEST((parts[static_cast<std::size_t>(TtftPart::kv_contention)] == Time()));
    BOOST_TEST((served.kv_landed() - served.prefilled() == post + alone));
    Time sum;
    for (const Time part : parts) sum += part;
    BOOST_TEST((sum == served.times.first_token - served.request.arrival));
  }
}

BOOST_AUTO_TEST_CASE(heads_that_ranks_divide_in_other_ways_are_scattered_by_token) {
  const std::string one = "workload.requests={list: [{prompt_tokens: 64, output_tokens: 4}]}";
  const std::string unequal =
      "workload.instances=[{name: p, role: prefill}, {name: d, role: decode, tp: 2, gpus: [4, 5]}]";
  for (const bool scatters : {true, false}) {
    ServingBench run(tiny_serving(
        {one, unequal,
         std::string("workload.kv_transfer={descriptor_us: 1, scatters_heads: ") + (scatters ? "true}" : "false}")}));
    run_pair(run);
    const std::uint64_t pieces = scatters ? 64 : 4;
    BOOST_TEST((run.served[0].ttft[TtftPart::kv_post] == Time::seconds(pieces * 6 * 2 * 1e-6)));
  }
}

BOOST_AUTO_TEST_CASE(transfers_into_one_gpu_share_its_link) {
  // Three prompts that end at one instant on three GPUs.
  const std::string many =
      "workload.requests={list: [" +
      std::string("{prompt_tokens: 1024, output_tokens: 2}, {prompt_tokens: 1024, output_tokens: 2}, ") +
      "{prompt_tokens: 1024, output_tokens: 2}]}";
  ServingBench run(tiny_serving({many, "workload.router={policy: round_robin}",
                                 "workload.instances=[{name: p, role: prefill, count: 3, gpus: [0, 1, 2]}, "
                                 "{name: d, role: decode, gpus: [4]}]"}));
  run_pair(run);
  const Time alone = run.simulation.fabric().uncontended(
      run.service().instance(0).grid().rank(0).gpu->window(), run.service().instance(3).grid().rank(0).gpu->window(),
      number(TrafficClass::kv), 1024 * run.service().instance(3).grid().kv().bytes_per_token(0),
      transport::Engine::copy_engine);
  Time last;
  for (Stay& served : run.served) {
    last = later(last, served.kv_landed() - served.prefilled());
    BOOST_TEST((served.ttft[TtftPart::kv] <= alone));
    BOOST_TEST(
        (served.ttft[TtftPart::kv] + served.ttft[TtftPart::kv_contention] == served.kv_landed() - served.prefilled()));
  }
  BOOST_TEST(last.seconds() == 3 * alone.seconds(), boost::test_tools::tolerance(0.03));
}

BOOST_AUTO_TEST_CASE(an_engine_in_a_step_sees_kv_at_its_end) {
  const std::string load =
      "workload.requests={count: 24, arrivals: poisson, rate_per_s: 900, prompt_tokens: 700, "
      "output_tokens: 30}";
  std::vector<double> alignment;
  for (const bool at_step : {false, true}) {
    ServingBench run(
        tiny_serving({load, kPair, std::string("workload.kv_transfer.seen_at_step=") + (at_step ? "true" : "false")}));
    run_pair(run);
    double sum = 0;
    for (Stay& served : run.served) {
      sum += served.ttft[TtftPart::step_alignment].seconds();
      Time all;
      for (const Time part : served.ttft.all()) all += part;
      BOOST_TEST_REQUIRE((all == served.times.first_token - served.request.arrival));
    }
    alignment.push_back(sum);
  }
  BOOST_TEST(alignment[0] <= alignment[1]);
}

// Two prompts of a user share 512 of 1000 tokens, and of the second one's 488 new tokens all are computed by the decode side. By the
// limit of 489 tokens it stays there, and by 488 it goes the long way.
BOOST_AUTO_TEST_CASE(a_decode_instance_computes_the_prompts_that_are_left_to_it) {
  for (const bool stays : {true, false}) {
    ServingBench run(tiny_serving(
        {"workload.requests={count: 2, prompt_tokens: 1000, output_tokens: 5, prefix: {groups: 1, users_per_group: 1, "
         "shared_tokens: 512}}",
         kPair,
         std::string("workload.router={policy: round_robin, decider: uncached_tokens, decider_tokens: ") +
             (stays ? "489}" : "488}")}));
    run_pair(run);
    const Bytes of_token = run.service().instance(1).grid().kv().bytes_per_token(0);
    BOOST_TEST(kv_sent(run) == (stays ? 1000 : 1000 + 488) * of_token);
    Stay& second = run.served[1];
    BOOST_TEST(second.visits.size() == (stays ? 1u : 2u));
    BOOST_TEST(second.counts.cached_tokens == 512u);
    BOOST_TEST((second.ttft[TtftPart::decode_kernels] == Time()) == stays);
    Time sum;
    for (const Time part : second.ttft.all()) sum += part;
    BOOST_TEST((sum == second.times.first_token - second.request.arrival));
    if (!stays) continue;
    // As a colocated instance that has the same blocks.
    ServingBench alone(tiny_serving(
        {"workload.requests={count: 2, prompt_tokens: 1000, output_tokens: 5, prefix: {groups: 1, users_per_group: 1, "
         "shared_tokens: 512}}"}));
    alone.run();
    BOOST_TEST((second.times.last_token - second.request.arrival ==
                alone.served[1].times.last_token - alone.served[1].request.arrival));
  }
}

BOOST_AUTO_TEST_CASE(colocated_instances_take_requests_and_answers_beside_those_that_prefill) {
  ServingBench run(tiny_serving(
      {"workload.requests={count: 12, arrivals: poisson, rate_per_s: 800, prompt_tokens: 700, output_tokens: 9}",
       "workload.instances=[{name: c, gpus: [4]}, {name: p, role: prefill}]", "workload.router=round_robin"}));
  run_pair(run);
  std::uint32_t whole = 0, handed_over = 0;
  for (Stay& served : run.served) {
    ++(served.visits.size() == 1 ? whole : handed_over);
    BOOST_TEST(served.instance() == 0u);
    BOOST_TEST((served.ttft[TtftPart::decode_kernels] > Time()) == (served.visits.size() == 2));
  }
  BOOST_TEST(whole == 6u);
  BOOST_TEST(handed_over == 6u);
}

// The link of the first decode instance has 0.4 of its rate: KV there takes 2.5 times as long. Prompts end one after the other, much faster
// than their KV moves: 1 < 2.5, 1 + 1 < 2.5, 1 + 2 > 2.5.
BOOST_AUTO_TEST_CASE(answers_go_where_the_kv_would_come_soonest) {
  std::string list;
  for (const std::uint32_t tokens : {1000, 1016, 1032})
    list += (list.empty() ? "" : ", ") + fmt::format("{{prompt_tokens: {}, output_tokens: 400}}", tokens);
  for (const std::string fidelity : {"train", "fluid"}) {
    const auto chosen = [&](const std::string& policy) {
      Scenario scenario = tiny_serving({"workload.requests={list: [" + list + "]}", "fabric.fidelity=" + fidelity,
                                        "events=[{at_us: 1, link: \"GPU_G[d0][0][0]_PCI\", rate_ratio: 0.4}]",
                                        "workload.router={policy: round_robin, decode: " + policy + "}",
                                        "workload.instances=[{name: p, role: prefill, count: 3, gpus: [0, 1, 2]}, "
                                        "{name: d, role: decode, count: 2, gpus: [4, 5]}]"});
      scenario.machine.groups.front().gpu_pcie.gb_per_s = 1;
      ServingBench run(scenario);
      run_pair(run);
      std::vector<std::uint32_t> instances;
      for (const Stay& served : run.served) instances.push_back(served.instance() - 3);
      return instances;
    };
    BOOST_TEST(chosen("link_aware") == (std::vector<std::uint32_t>{1, 1, 0}), boost::test_tools::per_element());
    BOOST_TEST(chosen("least_requests") == (std::vector<std::uint32_t>{0, 1, 0}), boost::test_tools::per_element());
  }
}
