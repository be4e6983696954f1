// KV that an instance reads from the host memory of another one, over the network: what is read, over which links, what a read takes, and
// what is left if the other one fails.
#include "tests/support/systemc_main.h"
#include "tests/support/ttft_sums.h"
#include "workload/inference/kv/kv_peers.h"

using namespace railyard;
using namespace railyard::test;
using namespace railyard::workload::inference;

namespace {

constexpr std::uint32_t kPrompt = 1000, kBlock = 16;

/// Two instances in turn, on a server each. All prompts begin with the same tokens.
std::vector<std::string> pair(std::uint32_t count, std::uint32_t shared, std::uint32_t min_tokens,
                              const std::string& mapping = "gpus: [8]", double host_bytes = 1e9) {
  return {"machine.groups.gpus.servers=2",
          "workload.instances=[{name: a, " + mapping.substr(0, mapping.find("gpus")) + "}, {name: b, " + mapping + "}]",
          "workload.requests={count: " + std::to_string(count) +
              ", arrivals: constant, rate_per_s: 4, prompt_tokens: 1000, output_tokens: 3, "
              "prefix: {groups: 1, users_per_group: 1, shared_tokens: " +
              std::to_string(shared) + "}}",
          "workload.router=round_robin",
          fmt::format("workload.kv_tiers={{host: {{bytes_per_server: {}}}, peers: {{min_tokens: {}}}}}", host_bytes,
                      min_tokens)};
}

Bytes block_bytes(ServingBench& run) {
  Grid& grid = run.service().instance(0).grid();
  Bytes sum = 0;
  for (std::uint32_t r = 0; r < grid.ranks(); ++r) sum += grid.block_bytes(r / grid.tp(), kBlock);
  return sum;
}

}  // namespace

BOOST_AUTO_TEST_CASE(what_a_peer_has_is_read_once) {
  for (const std::string mapping : {"gpus: [8]", "tp: 2, gpus: [8, 9]", "tp: 2, pp: 2, gpus: [8, 9, 10, 11]"}) {
    BOOST_TEST_INFO_SCOPE(mapping);
    ServingBench run(tiny_serving(pair(6, 512, 512, mapping), "dgx_h100"));
    run_and_check(run);
    for (std::size_t i = 0; i < run.served.size(); ++i) {
      const Scheduler::Counts& counts = run.served[i].counts;
      BOOST_TEST(counts.peer_tokens == (i == 1 ? 512u : 0u));
      BOOST_TEST(counts.loaded_tokens == (i == 1 ? 512u : 0u));
      BOOST_TEST(counts.cached_tokens == (i > 1 ? 512u : 0u));
    }
    BOOST_TEST(run.service().instance(0).offload()->from_peers() == 0u);
    BOOST_TEST(run.service().instance(1).offload()->from_peers() == 512 / kBlock * block_bytes(run));
  }
}

BOOST_AUTO_TEST_CASE(fewer_tokens_than_the_limit_are_computed) {
  for (const std::uint32_t min_tokens : {512u, 513u}) {
    ServingBench run(tiny_serving(pair(2, 512, min_tokens), "dgx_h100"));
    run_and_check(run);
    BOOST_TEST(run.served[1].counts.peer_tokens == (min_tokens > 512 ? 0u : 512u));
  }
}

BOOST_AUTO_TEST_CASE(a_read_takes_its_time_on_the_network_and_is_the_wait_for_kv) {
  double took[2] = {};
  Bytes bytes[2] = {};
  for (const int i : {0, 1}) {
    ServingBench run(tiny_serving(pair(2, i == 0 ? 320 : 960, 16), "dgx_h100"));
    run_and_check(run);
    const JobRow &pull = run.records.named("KvPull_PP[0]_TP[0]_No[0]_Inst[b]"),
                 &load = run.records.named("KvLoad_PP[0]_TP[0]_Req[1]_Inst[b]");
    took[i] = (pull.end - pull.start).seconds();
    bytes[i] = run.service().instance(1).offload()->from_peers();
    BOOST_TEST((run.served[1].ttft[TtftPart::kv] == (pull.end - pull.start) + (load.end - load.start)));
    BOOST_TEST((pull.end == load.start));
  }
  BOOST_TEST(bytes[1] == 3 * bytes[0]);
  // A NIC of 400 Gb/s: 50 GB/s less the headers of packets of 4 KiB.
  BOOST_TEST(static_cast<double>(bytes[1] - bytes[0]) / (took[1] - took[0]) == 49.2e9,
             boost::test_tools::tolerance(0.02));
}

BOOST_AUTO_TEST_CASE(each_rank_reads_by_the_nic_of_its_gpu) {
  // Four ranks at one socket, with a NIC each, two of them below a PCIe switch with one uplink of 63 GB/s.
  double took[2] = {};
  Bytes bytes[2] = {};
  for (const int i : {0, 1}) {
    ServingBench run(tiny_serving(pair(2, 960, 16, i == 0 ? "gpus: [8]" : "tp: 4, gpus: [8, 9, 10, 11]"), "dgx_h100"));
    run_and_check(run);
    for (const JobRow& row : run.records.of("KvPull")) took[i] = std::max(took[i], (row.end - row.start).seconds());
    bytes[i] = run.service().instance(1).offload()->from_peers();
  }
  BOOST_TEST(bytes[0] == bytes[1]);
  BOOST_TEST(took[1] < 0.5 * took[0]);
}

BOOST_AUTO_TEST_CASE(the_longest_prefix_is_read_and_of_equal_ones_the_first) {
  KvTier few(10), many(10), same(10);
  const KvTier::Contents all{11, 12, 13, 14, 15};
  const auto put = [](KvTier& tier, const KvTier::Contents& contents) { tier.end_write(tier.begin_write(contents)); };
  put(few, {12, 13});
  put(many, {12, 13, 14});
  put(same, {12, 13, 14});
  KvPeers peers(4, 2 * kBlock);
  peers.add(1, few);
  peers.add(2, many);
  peers.add(3, same);
  for (const std::uint32_t peer : {1u, 2u, 3u}) peers.allow(0, peer);
  BOOST_TEST(!peers.find(0, all, 0, kBlock));  // nobody has the first one
  const auto found = peers.find(0, all, 1, kBlock);
  BOOST_TEST_REQUIRE(found.has_value());
  BOOST_TEST(found->lender.store == 2u);
  BOOST_TEST(found->blocks == 3u);
  BOOST_TEST(!peers.find(0, all, 3, kBlock));  // one block is too few
  // Blocks that are being read stay; after a loss, the read ends all the same.
  many.begin_read({12, 13});
  BOOST_TEST(many.begin_write({1, 2, 3, 4, 5, 6, 7, 8}).size() == 8u);
  BOOST_TEST(many.find({12, 13}, 0) == 2u);
  many.clear();
  put(many, {12});
  many.begin_read({12});
  found->lender.end({12, 13});
  BOOST_TEST(many.begin_write({1, 2, 3, 4, 5, 6, 7, 8, 9, 10}).empty());  // still being read by another one
}

BOOST_AUTO_TEST_CASE(a_peer_that_fails_lends_nothing_more) {
  // It fails before the second request, or while the second one reads, which takes some 60 us.
  for (const double at_us : {0.4e6, 0.50003e6}) {
    std::vector<std::string> sets = pair(4, 960, 16);
    sets.push_back(fmt::format("events=[{{at_us: {}, instance: a, fail: true}}]", at_us));
    ServingBench run(tiny_serving(sets, "dgx_h100"));
    run_and_check(run);
    BOOST_TEST(run.served[1].counts.peer_tokens == (at_us < 0.5e6 ? 0u : 960u));
    for (std::size_t i = 2; i < 4; ++i) BOOST_TEST(run.served[i].counts.cached_tokens == 960u);
  }
}

BOOST_AUTO_TEST_CASE(an_instance_that_fails_while_it_reads_gives_the_blocks_free) {
  std::vector<std::string> sets = pair(4, 960, 16, "gpus: [8]", 1.5e7);
  sets.push_back("events=[{at_us: 500030, instance: b, fail: true}, {at_us: 600000, instance: b, join: host}]");
  ServingBench run(tiny_serving(sets, "dgx_h100"));
  run_and_check(run);
  BOOST_TEST(run.served[1].restarts == 1u);
}

BOOST_AUTO_TEST_CASE(only_alike_instances_on_other_servers_are_peers) {
  const auto peers = [](const std::string& instances) {
    std::vector<std::string> sets = pair(2, 512, 16);
    sets[1] = "workload.instances=[" + instances + "]";
    ServingBench run(tiny_serving(sets, "dgx_h100"));
    run_and_check(run);
    return run.served[1].counts.peer_tokens > 0;
  };
  BOOST_TEST(peers("{name: a, gpus: [0]}, {name: b, gpus: [8]}, {name: c, tp: 2, gpus: [2, 3]}"));
  BOOST_TEST(peers("{name: a, gpus: [8]}, {name: b, gpus: [0]}, {name: c, gpus: [9]}"));
  BOOST_TEST(!peers("{name: a, gpus: [0]}, {name: b, gpus: [1]}, {name: c, gpus: [8]}"));  // b would be c's peer
  BOOST_TEST(!peers("{name: a, tp: 2, gpus: [0, 1]}, {name: b, gpus: [8]}, {name: c, gpus: [2]}"));
}
