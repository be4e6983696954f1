// Attention replicas of several tensor-parallel ranks: what these ranks share, what they send, and what they keep.
#include <map>
#include <set>
#include <utility>

#include "base/random.h"
#include "tests/support/serving_run.h"
#include "tests/support/systemc_main.h"

using namespace railyard;
using namespace railyard::test;
using namespace railyard::workload::inference;

namespace {

const std::string kExperts = "model.config=" + kSource + "/tests/models/tiny_experts.json";

/// Bytes of each class by the ranks between which they moved.
struct RankWays : transport::FabricListener {
  explicit RankWays(ServingBench& run) : run_(run) { run.fabric().add_listener(*this); }
  void on_send(const transport::Message&, Time) override {}
  void on_delivered(const transport::Message& message, Time) override {
    bytes[message.traffic_class][{rank(message.source), rank(message.destination)}] += message.bytes;
  }
  void on_start(const transport::Device&, PortId, const transport::Transaction&, Time,
                const transport::Crossing&) override {}
  void on_queue(const transport::Device&, PortId, Bytes, Time) override {}
  void on_credit(const transport::Device&, PortId, std::uint8_t, Bytes, Time, Time) override {}
  std::map<std::uint8_t, std::map<std::pair<std::uint32_t, std::uint32_t>, Bytes>> bytes;

 private:
  /// Counted over all instances.
  std::uint32_t rank(transport::Window window) const {
    std::uint32_t number = 0;
    for (std::size_t i = 0; i < run_.service().instances(); ++i) {
      const Grid& grid = run_.service().instance(i).grid();
      for (std::uint32_t r = 0; r < grid.ranks(); ++r, ++number)
        if (grid.rank(r).gpu->window() == window) return number;
    }
    return ~0u;
  }
  ServingBench& run_;
};

Scenario service(const std::vector<std::string>& sets) {
  std::vector<std::string> all{kExperts};
  all.insert(all.end(), sets.begin(), sets.end());
  return tiny_serving(all, "dgx_h100");
}

}  // namespace

BOOST_AUTO_TEST_CASE(one_replica_is_tensor_parallelism_with_whole_experts) {
  const auto jobs = [](const std::string& instance) {
    ServingBench run(service({"workload.instances=[{name: a, " + instance + "}]",
                              "workload.requests={count: 6, prompt_tokens: 300, output_tokens: 5}"}));
    run.run();
    std::string text;
    for (const JobRow& row : run.records.all)
      text += fmt::format("{} {} {} {}\n", row.name(), row.start.fs(), row.end.fs(), row.bytes);
    return text;
  };
  BOOST_TEST((jobs("tp: 4, dp: 1, ep: 4") == jobs("tp: 4, ep: 4")));
}

// A lone prompt in one of four replicas of two ranks, with an all-reduce or a reduce-scatter of NCCL's rings.
BOOST_AUTO_TEST_CASE(a_replica_adds_its_attention_and_sends_its_tokens_once) {
  constexpr Bytes kTokens = 512, kHidden = 1024 * 2;
  for (const bool scatters : {false, true}) {
    BOOST_TEST_INFO_SCOPE(scatters);
    const Scratch scratch;
    scratch.write("rings.yaml", std::string("base: ") + (scatters ? "sglang-0.5" : "vllm-0.19") +
                                    "\nsource: this test\nall_reduce: {kernels: []}\n");
    ServingBench run(service(
        {"workload.instances=[{name: a, tp: 2, dp: 4, ep: 8}]", "workload.engine=" + scratch.path("rings.yaml"),
         "workload.requests={prompt_tokens: 512, output_tokens: 1}", "workload.experts={exchange: all_to_all}"}));
    run.simulation.workload().executor().simulate_every_collective();
    RankWays ways(run);
    run.run();
    const auto bytes_of = [&](const std::string& name) {
      Bytes sum = 0;
      for (const JobRow& row : run.records.of(name)) sum += row.bytes;
      return sum;
    };
    const std::uint32_t layers = 2, copies = 2;
    BOOST_TEST(bytes_of(scatters ? "TP_RS_" : "TP_AR_") == layers * kTokens * kHidden);
    BOOST_TEST(bytes_of(scatters ? "TP_AR_" : "TP_RS_") == 0u);
    BOOST_TEST(bytes_of("TP_AG_") == layers * kTokens * kHidden);
    // Each rank sends the copies of half of the tokens; all ranks are shown like those of the replica with tokens.
    BOOST_TEST(bytes_of("EP_Dispatch_") == layers * kTokens / 2 * copies * kHidden);
    BOOST_TEST(bytes_of("EP_Combine_") == bytes_of("EP_Dispatch_"));
    // No byte of tensor parallelism leaves its replica, and all replicas send as many.
    std::set<Bytes> of_tp, of_ep;
    for (const auto& [way, bytes] : ways.bytes.at(number(TrafficClass::tp))) {
      BOOST_TEST(way.first / 2 == way.second / 2);
      of_tp.insert(bytes);
    }
    BOOST_TEST(ways.bytes.at(number(TrafficClass::tp)).size() == 8u);
    BOOST_TEST(of_tp.size() == 1u);
    for (const auto& [way, bytes] : ways.bytes.at(number(TrafficClass::ep))) of_ep.insert(bytes);
    BOOST_TEST(ways.bytes.at(number(TrafficClass::ep)).size() == 8u * 7);
    // An eighth of the copies of half of the tokens to each rank, and back, in each layer.
    BOOST_TEST(of_ep == std::set<Bytes>{2 * layers * kTokens / 2 * copies * kHidden / 8},
               boost::test_tools::per_element());
    // A ring of two sends half of the vector of a reduce-scatter or an all-gather, and twice as much of an all-reduce.
    const auto sent = [&](collective::Operation operation) {
      const collective::CollectiveSpec& spec =
          run.instance().communicator(0, transformer::RankGroup::tp).choose(operation, kTokens * kHidden);
      return layers * spec.cost.wire_bytes(kTokens * kHidden / 2);
    };
    using collective::Operation;
    BOOST_TEST(*of_tp.begin() == sent(Operation::all_gather) +
                                     (scatters ? sent(Operation::reduce_scatter) : 2 * sent(Operation::all_reduce)));
  }
}

BOOST_AUTO_TEST_CASE(ranks_keep_their_heads_or_all_of_latent_kv) {
  const auto block = [](const std::vector<std::string>& sets) {
    ServingBench run(tiny_serving(sets, "dgx_h100"));
    const Grid& grid = run.instance();
    return grid.block_bytes(0, 16);
  };
  const auto of = [&](const std::string& instance) {
    return block({kExperts, "workload.instances=[{name: a, " + instance + "}]"});
  };
  const Bytes all = 16ull * 2 * 2 * 4 * 128 * 2;  // tokens, layers, keys and values, heads, numbers, bytes
  BOOST_TEST(of("dp: 8") == all);
  BOOST_TEST(of("tp: 2, dp: 4") == all / 2);
  BOOST_TEST(of("tp: 4, dp: 2") == all / 4);
}

// Prompts by turn over two replicas of two ranks; answers by turn over two replicas of four ranks: each byte of KV goes from the rank
// that has its head to the rank that needs it.
BOOST_AUTO_TEST_CASE(kv_goes_between_the_ranks_of_two_replicas) {
  for (const std::string mode : {"pull", "push_per_chunk"}) {
    BOOST_TEST_INFO_SCOPE(mode);
    const Scratch scratch;
    scratch.write("by_turn.yaml",
                  "base: vllm-0.19\nsource: this test\nreplicas: {choice: round_robin, of_prompts: round_robin}\n");
    const std::vector<Bytes> prompts{700, 64, 1300, 33, 512, 900};
    std::string list;
    for (const Bytes prompt : prompts)
      list += fmt::format("{}{{prompt_tokens: {}, output_tokens: 3}}", list.empty() ? "" : ", ", prompt);
    ServingBench run(
        service({"machine.groups.gpus.servers=2",
                 "workload.instances=[{name: p, role: prefill, tp: 2, dp: 2}, {name: d, role: decode, tp: 4, dp: 2}]",
                 "workload.requests={list: [" + list + "]}", "workload.engine=" + scratch.path("by_turn.yaml"),
                 "workload.scheduler.max_batched_tokens=256", "workload.kv_transfer.mode=" + mode}));
    RankWays ways(run);
    run.run();
    const Bytes of_head = 2ull * 2 * 128 * 2;  // layers, keys and values, numbers, bytes
    std::map<std::pair<std::uint32_t, std::uint32_t>, Bytes> expected;
    // Pushed: all requests take memory before, by turn, and those of one decode replica enter the queue before those of the other.
    const std::vector<std::size_t> order =
        mode == "pull" ? std::vector<std::size_t>{0, 1, 2, 3, 4, 5} : std::vector<std::size_t>{0, 2, 4, 1, 3, 5};
    std::map<std::size_t, std::uint32_t> prompt_replica;
    for (std::size_t i = 0; i < order.size(); ++i) prompt_replica[order[i]] = i % 2;
    Bytes all = 0;
    for (const Bytes prompt : prompts) all += prompt;
    std::map<std::uint32_t, Bytes> sent, expected_sent;
    for (const auto& [way, bytes] : ways.bytes.at(number(TrafficClass::kv))) {
      const std::uint32_t t = way.first % 2, u = (way.second - 4) % 4;
      BOOST_TEST(way.first < 4u);
      BOOST_TEST(t == u / 2);  // of four heads, two are on a rank of the prompt
      sent[way.first] += bytes;
      expected[{t, u}] += bytes;
    }
    for (const auto& [way, bytes] : expected) BOOST_TEST(bytes == all * of_head);
    BOOST_TEST(expected.size() == 4u);
    for (std::size_t i = 0; i < prompts.size(); ++i)
      for (std::uint32_t t = 0; t < 2; ++t) expected_sent[2 * prompt_replica[i] + t] += 2 * prompts[i] * of_head;
    BOOST_TEST((sent == expected_sent));
  }
}

// ServingBench::run() checks tokens, blocks and times of each.
BOOST_AUTO_TEST_CASE(random_services_lose_nothing) {
  for (std::uint32_t seed = 0; seed < 8; ++seed) {
    Random random(seed, 0);
    const std::uint32_t tp = 1u << random.below(3), dp = 2u << random.below(tp == 4 ? 1 : 2);
    const bool is_pair = random.below(2) == 1;
    const char* const exchanges[] = {"allgather_reducescatter", "all_to_all", "deepep_low_latency"};
    const char* const engines[] = {"vllm-0.19", "sglang-0.5"};
    const std::string replicas = fmt::format("tp: {}, dp: {}", tp, dp);
    const std::string other = fmt::format("tp: {}, dp: {}", 1u << random.below(2), 4);
    BOOST_TEST_INFO_SCOPE(seed << " " << replicas << ", " << other);
    ServingBench run(service(
        {"machine.groups.gpus.servers=2",
         is_pair
             ? "workload.instances=[{name: p, role: prefill, " + replicas + "}, {name: d, role: decode, " + other + "}]"
             : "workload.instances=[{name: a, " + replicas + "}]",
         std::string("workload.engine=") + engines[random.below(2)],
         std::string("workload.experts={exchange: ") + exchanges[random.below(3)] + "}",
         fmt::format("workload.requests={{count: {}, arrivals: poisson, rate_per_s: {}, prompt_tokens: {{uniform: "
                     "{{min: 1, max: 700}}}}, "
                     "output_tokens: {{uniform: {{min: 1, max: 12}}}}}}",
                     5 + random.below(15), 100 + random.below(4000)),
         fmt::format("workload.kv_blocks={}", 60 + random.below(200)), "workload.scheduler.max_batched_tokens=256"}));
    run.run();
  }
}
