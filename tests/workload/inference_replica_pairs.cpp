// Attention replicas in instances that prefill or decode: the KV of a request is on the ranks of one replica, and goes from these to the
// ranks of the replica with the answer.
#include <map>
#include <set>
#include <utility>

#include "tests/support/serving_run.h"
#include "tests/support/systemc_main.h"

using namespace railyard;
using namespace railyard::test;
using namespace railyard::workload::inference;

namespace {

const std::string kExperts = "model.config=" + kSource + "/tests/models/tiny_experts.json";

std::string pair(const std::string& prefill, const std::string& decode) {
  return "workload.instances=[{name: p, role: prefill, " + prefill + "}, {name: d, role: decode, " + decode + "}]";
}

/// KV bytes by the memories between which they moved.
struct KvWays : transport::FabricListener {
  explicit KvWays(ServingBench& run) { run.fabric().add_listener(*this); }
  void on_send(const transport::Message&, Time) override {}
  void on_delivered(const transport::Message& message, Time) override {
    if (message.traffic_class == number(TrafficClass::kv))
      bytes[{message.source, message.destination}] += message.bytes;
  }
  void on_start(const transport::Device&, PortId, const transport::Transaction&, Time,
                const transport::Crossing&) override {}
  void on_queue(const transport::Device&, PortId, Bytes, Time) override {}
  void on_credit(const transport::Device&, PortId, std::uint8_t, Bytes, Time, Time) override {}
  std::map<std::pair<transport::Window, transport::Window>, Bytes> bytes;
};

transport::Window window(ServingBench& run, std::size_t instance, std::uint32_t rank) {
  return run.service().instance(instance).grid().rank(rank).gpu->window();
}

}  // namespace

// A lone request on an empty machine: the prompt as on one instance, the KV between the GPUs of two replicas, and a
// decode of the last token, as on one instance whose prompt has a token less.
BOOST_AUTO_TEST_CASE(a_lone_request_takes_prompt_kv_and_step) {
  const auto run_with = [](const std::string& instances, std::uint32_t prompt) {
    ServingBench run(serving_scenario(
        {kExperts, instances, fmt::format("workload.requests={{prompt_tokens: {}, output_tokens: 2}}", prompt)}));
    run.run();
    const Time kv =
        run.service().instances() == 1
            ? Time()
            : run.simulation.fabric().uncontended(window(run, 0, 0), window(run, 1, 0), number(TrafficClass::kv),
                                                  prompt * run.service().instance(1).grid().kv().bytes_per_token(0),
                                                  transport::Engine::copy_engine);
    return std::pair(run.served[0], kv);
  };
  const std::string one = "workload.instances=[{name: a, dp: 2}]";
  const Stay alone = run_with(one, 512).first, shorter = run_with(one, 511).first;
  auto [served, kv] = run_with(pair("dp: 2", "dp: 2, gpus: [2, 3]"), 512);
  BOOST_TEST((kv > Time()));
  BOOST_TEST((served.ttft[TtftPart::kv] == kv));
  const Time step = shorter.times.tokens[1] - shorter.times.tokens[0];
  BOOST_TEST(served.prefilled().fs() == alone.times.first_token.fs());
  BOOST_TEST((served.kv_landed() - served.prefilled()).fs() == kv.fs());
  // The step begins at another instant, which a femtosecond of rounding may show.
  const Time seen = served.times.first_token - served.kv_landed();
  BOOST_TEST((since(step, seen) + since(seen, step) <= Time::fs(1)));
}

// Prompts of different lengths, by turn over four replicas that prefill and two that decode: each byte goes from the GPU of one to that
// of the other, whatever the order of the transfers.
BOOST_AUTO_TEST_CASE(kv_goes_from_replica_to_replica) {
  for (const std::string mode : {"pull", "push_at_end", "push_per_chunk", "push_per_layer"}) {
    BOOST_TEST_INFO_SCOPE(mode);
    const Scratch scratch;
    scratch.write("by_turn.yaml",
                  "base: vllm-0.19\nsource: this test\nreplicas: {choice: round_robin, of_prompts: round_robin}\n");
    std::string list;
    const std::vector<std::uint64_t> prompts{700, 64, 1300, 33, 512, 900, 17, 250, 1024, 5};
    for (const std::uint64_t prompt : prompts)
      list += fmt::format("{}{{prompt_tokens: {}, output_tokens: 3}}", list.empty() ? "" : ", ", prompt);
    ServingBench run(tiny_serving({kExperts, pair("dp: 4", "dp: 2"), "workload.requests={list: [" + list + "]}",
                                   "workload.engine=" + scratch.path("by_turn.yaml"),
                                   "workload.scheduler.max_batched_tokens=256", "workload.kv_transfer.mode=" + mode},
                                  "dgx_h100"));
    KvWays ways(run);
    run.run();
    // Pushed: requests take memory in one decode replica after the other, and then enter the queue of a prompt's replica.
    const std::vector<std::size_t> order = mode == "pull" ? std::vector<std::size_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}
                                                          : std::vector<std::size_t>{0, 2, 4, 6, 8, 1, 3, 5, 7, 9};
    std::map<std::uint32_t, Bytes> sent, expected;
    Bytes all = 0, told = 0;
    for (const auto& [way, bytes] : ways.bytes)
      for (std::uint32_t r = 0; r < 4; ++r)
        if (way.first == window(run, 0, r)) sent[r] += bytes;
    const Bytes of_token = run.service().instance(1).grid().kv().bytes_per_token(0);
    for (std::size_t i = 0; i < prompts.size(); ++i) expected[i % 4] += prompts[order[i]] * of_token;
    BOOST_TEST((sent == expected));
    for (const auto& [way, bytes] : ways.bytes) {
      all += bytes;
      BOOST_TEST((way.second == window(run, 1, 0) || way.second == window(run, 1, 1)));
    }
    for (const JobRow& job : run.records.of("Handoff_PP")) told += job.bytes;
    BOOST_TEST(told == all);
    if (mode == "pull") continue;
    for (std::uint32_t r = 0; r < 2; ++r) {
      Bytes landed = 0, of_requests = 0;
      for (const auto& [way, bytes] : ways.bytes) landed += way.second == window(run, 1, r) ? bytes : 0;
      for (std::size_t i = r; i < prompts.size(); i += 2) of_requests += prompts[i] * of_token;
      BOOST_TEST(landed == of_requests);
    }
  }
}

// Tensor parallelism on one side: each rank of it has a share of the heads of every request, and the replica has all of them.
BOOST_AUTO_TEST_CASE(heads_are_joined_in_a_replica_and_divided_behind_it) {
  for (const bool joins : {true, false}) {
    for (const std::string mode : {"pull", "push_per_chunk"}) {
      BOOST_TEST_INFO_SCOPE(joins << " " << mode);
      ServingBench run(tiny_serving(
          {kExperts, joins ? pair("tp: 2", "dp: 4") : pair("dp: 4", "tp: 2"),
           "workload.requests={count: 8, prompt_tokens: 500, output_tokens: 4}", "workload.kv_transfer.mode=" + mode},
          "dgx_h100"));
      KvWays ways(run);
      run.run();
      const Bytes of_request = 500 * run.service().instance(joins ? 1 : 0).grid().kv().bytes_per_token(0);
      std::map<std::uint32_t, Bytes> of_rank;  // of the side with tensor parallelism
      for (const auto& [way, bytes] : ways.bytes)
        for (std::uint32_t r = 0; r < 2; ++r)
          if ((joins ? way.first : way.second) == window(run, joins ? 0 : 1, r)) of_rank[r] += bytes;
      BOOST_TEST((of_rank == std::map<std::uint32_t, Bytes>{{0, 4 * of_request}, {1, 4 * of_request}}));
      BOOST_TEST(ways.bytes.size() == 8u);  // four replicas, and two ranks
    }
  }
}

// Each replica is an engine of its own when two meet: the second request goes between two others, and the third one between the first two.
BOOST_AUTO_TEST_CASE(each_two_replicas_meet_once) {
  ServingBench run(tiny_serving(
      {kExperts, pair("dp: 2", "dp: 2"), "workload.kv_blocks=1000",
       "workload.requests={list: [{prompt_tokens: 1000, output_tokens: 4}, {prompt_tokens: 1000, output_tokens: 4}, "
       "{arrival_s: 1, prompt_tokens: 1000, output_tokens: 4}]}",
       "workload.kv_transfer={metadata_us: 30000, prepare_us: 5, first_contact: in_run}"},
      "dgx_h100"));
  run.run();
  // Blocks of two layers, keys and values, of one replica.
  const Time meeting = Time::us(30000) + Time::us(5 * 1000 * 2 * 2);
  for (const std::size_t i : {0u, 1u}) BOOST_TEST((run.served[i].ttft[TtftPart::kv_handshake] == meeting));
  BOOST_TEST((run.served[2].ttft[TtftPart::kv_handshake] == Time()));
  std::set<std::string> names;
  for (const JobRow& row : run.records.all)
    if (row.name().rfind("KvHandshake", 0) == 0) names.insert(row.name());
  BOOST_TEST(
      (names == std::set<std::string>{"KvHandshake_PP[0]_TP[0]_FromInst[p]_ToInst[d]_FromReplica[0]_ToReplica[0]",
                                      "KvHandshake_PP[0]_TP[1]_FromInst[p]_ToInst[d]_FromReplica[1]_ToReplica[1]"}));
}

// A full replica does not take what another one has room for: four requests that each fill a cache, over two replicas.
BOOST_AUTO_TEST_CASE(each_replica_reserves_in_its_own_cache) {
  for (const std::string mode : {"pull", "push_per_chunk"}) {
    ServingBench run(tiny_serving(
        {kExperts, pair("dp: 2", "dp: 2"), "workload.kv_blocks=66",
         "workload.requests={count: 4, prompt_tokens: 1000, output_tokens: 20}", "workload.kv_transfer.mode=" + mode},
        "dgx_h100"));
    run.run();
    std::vector<std::pair<Time, Time>> held;
    for (const Stay& served : run.served) held.push_back({*served.visits.back().kv_promised, served.times.last_token});
    std::size_t together = 0;
    for (std::size_t i = 0; i < held.size(); ++i) {
      std::size_t at_begin = 0;
      for (const auto& [from, to] : held) at_begin += from <= held[i].first && held[i].first < to;
      together = std::max(together, at_begin);
    }
    BOOST_TEST(together == 2u, mode);
  }
}

// One GPU of the first decode instance has a link with 0.4 of its rate: KV to its two replicas takes 2.5 and 1, on average 1.75. Prompts end much
// faster than their KV moves, and the second one goes to the other replica: 1 < 1.75, (2 + 1) / 2 < 1.75, (2 + 2) / 2 > 1.75.
BOOST_AUTO_TEST_CASE(answers_go_where_the_kv_would_come_soonest_on_average) {
  std::string list;
  for (const std::uint32_t tokens : {1000, 1016, 1032})
    list += (list.empty() ? "" : ", ") + fmt::format("{{prompt_tokens: {}, output_tokens: 400}}", tokens);
  Scenario scenario = tiny_serving({kExperts, "workload.requests={list: [" + list + "]}",
                                    "events=[{at_us: 1, link: \"GPU_G[d0][0][0]_PCI\", rate_ratio: 0.4}]",
                                    "workload.router={policy: round_robin, decode: link_aware}",
                                    "workload.instances=[{name: p, role: prefill, count: 3, gpus: [0, 1, 2]}, "
                                    "{name: d, role: decode, dp: 2, count: 2, gpus: [3, 4, 5, 6]}]"});
  scenario.machine.groups.front().gpu_pcie.gb_per_s = 1;
  ServingBench run(scenario);
  run.run();
  std::vector<std::uint32_t> chosen;
  for (const Stay& served : run.served) chosen.push_back(served.instance() - 3);
  BOOST_TEST(chosen == (std::vector<std::uint32_t>{1, 1, 0}), boost::test_tools::per_element());
}
