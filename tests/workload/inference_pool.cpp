// One pool of a server's host memory for all alike instances: what they find of each other, over which links, and what stays when an
// instance fails; and stores of attention replicas.
#include "tests/support/systemc_main.h"
#include "tests/support/ttft_sums.h"
#include "workload/inference/kv/kv_tier.h"

using namespace railyard;
using namespace railyard::test;
using namespace railyard::workload::inference;

namespace {

constexpr std::uint32_t kPrompt = 1000, kShared = 512, kBlock = 16;
const std::string kPool = "workload.kv_tiers.host={bytes_per_server: 1.0e+9, pool: server}";
const std::string kOwn = "workload.kv_tiers.host.bytes_per_server=1e9";
const std::string kSmallPool = "workload.kv_blocks=66";
const std::string kExperts = "model.config=" + kSource + "/tests/models/tiny_experts.json";

/// Groups whose prompts begin with 512 equal tokens, one after the other; a GPU has room for one prompt.
std::vector<std::string> groups(std::uint32_t count, std::uint32_t groups, const std::string& instances) {
  return {fmt::format("workload.requests={{count: {}, arrivals: closed_loop, concurrency: 1, prompt_tokens: 1000, "
                      "output_tokens: 3, prefix: {{groups: {}, users_per_group: 1, shared_tokens: 512}}}}",
                      count, groups),
          "workload.instances=[" + instances + "]", "workload.router=round_robin", kSmallPool};
}

Bytes block_bytes(ServingBench& run, std::size_t instance = 0) {
  Grid& grid = run.service().instance(instance).grid();
  Bytes sum = 0;
  for (std::uint32_t r = 0; r < grid.ranks(); ++r) sum += grid.block_bytes(r / grid.width(), kBlock);
  return sum / grid.replicas();
}

std::uint64_t sum_of(const ServingBench& run, std::uint64_t Scheduler::Counts::*what) {
  std::uint64_t sum = 0;
  for (const Stay& served : run.served) sum += served.counts.*what;
  return sum;
}

Bytes of_all(ServingBench& run, Bytes (KvOffload::*what)() const) {
  Bytes sum = 0;
  for (std::size_t i = 0; i < run.service().instances(); ++i) sum += (run.service().instance(i).offload()->*what)();
  return sum;
}

}  // namespace

BOOST_AUTO_TEST_CASE(an_instance_finds_what_another_one_has_written) {
  constexpr std::uint32_t kRequests = 12, kGroups = 3;
  constexpr std::uint64_t of_prompt = kPrompt / kBlock, of_prefix = kShared / kBlock;
  for (const std::string mapping : {"", ", tp: 2", ", tp: 2, pp: 2"}) {
    for (const bool is_shared : {true, false}) {
      BOOST_TEST_INFO_SCOPE(mapping << (is_shared ? ", one pool" : ", pools of their own"));
      std::vector<std::string> sets = groups(kRequests, kGroups, "{name: a, count: 2" + mapping + "}");
      sets.push_back(is_shared ? kPool : kOwn);
      ServingBench run(tiny_serving(sets, "dgx_h100"));
      run_and_check(run);
      // Request i is of group i mod 3 and goes to instance i mod 2. The first g prompts miss, or the first g of each instance.
      const std::uint64_t misses = is_shared ? kGroups : 2 * kGroups;
      for (std::uint32_t i = 0; i < kRequests; ++i) {
        const Scheduler::Counts& counts = run.served[i].counts;
        BOOST_TEST(counts.cached_tokens == 0u);
        BOOST_TEST(counts.loaded_tokens == (i < misses ? 0 : kShared));
        const bool is_of_other = is_shared && i >= misses && i % 2 != i % kGroups % 2;
        BOOST_TEST(counts.others_tokens == (is_of_other ? kShared : 0));
      }
      const Bytes loaded = of_all(run, &KvOffload::loaded), stored = of_all(run, &KvOffload::stored);
      BOOST_TEST(loaded == (kRequests - misses) * of_prefix * block_bytes(run));
      BOOST_TEST(stored == (misses * of_prompt + (kRequests - misses) * (of_prompt - of_prefix)) * block_bytes(run));
      BOOST_TEST(run.simulation.fabric().ledger().totals(number(TrafficClass::kv)).bytes == loaded + stored);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_pool_has_the_memory_of_its_instances) {
  const auto blocks = [](const std::string& instances, const std::string& host) {
    ServingBench run(
        tiny_serving({"workload.instances=[" + instances + "]", "workload.router=round_robin", host}, "dgx_h100"));
    const std::uint64_t all = run.service().host_blocks(), bytes = block_bytes(run);
    run_and_check(run);
    return static_cast<double>(all * bytes);
  };
  const auto is_all = boost::test_tools::tolerance(0.005);
  BOOST_TEST(blocks("{name: a, count: 4}", kPool) == 1e9, is_all);
  BOOST_TEST(blocks("{name: a, count: 4}", kOwn) == 1e9, is_all);
  BOOST_TEST(blocks("{name: a, tp: 4}", kPool) == 1e9, is_all);
}

BOOST_AUTO_TEST_CASE(blocks_come_from_the_socket_where_they_were_written) {
  // The first turn in an instance at the first socket, the second one at the second socket; the third one is at the first socket again.
  ServingBench run(
      tiny_serving({"workload.requests={count: 1, prompt_tokens: 400, output_tokens: 2, sessions: {turns: 3, "
                    "growth_tokens: 320, think_s: 0.1}}",
                    "workload.instances=[{name: a, gpus: [0]}, {name: b, gpus: [7]}]", "workload.router=round_robin",
                    "workload.kv_blocks=80", kPool},
                   "dgx_h100"));
  run_and_check(run);
  auto& machine = run.simulation.machine();
  BOOST_TEST_REQUIRE((machine.host_of(GpuId(0)).window() != machine.host_of(GpuId(7)).window()));
  const Stay &second = run.served[1], &third = run.served[2];
  BOOST_TEST(second.counts.others_tokens == second.counts.loaded_tokens);
  BOOST_TEST(second.counts.loaded_tokens == 400u);
  const JobRow& load = run.records.named("KvLoad_PP[0]_TP[0]_Req[1]_Inst[b]");
  Grid& grid = run.service().instance(1).grid();
  const Time alone = run.simulation.fabric().uncontended(
      machine.host_of(GpuId(0)).window(), grid.rank(0).gpu->window(), number(TrafficClass::kv),
      400 / kBlock * grid.block_bytes(0, kBlock), transport::Engine::copy_engine);
  const Time start = Time::seconds(grid.rank(0).gpu->datasheet().copy.engine_us * 1e-6);
  BOOST_TEST((load.end - load.start - start).seconds() == alone.seconds(), boost::test_tools::tolerance(0.01));
  // What the first turn has left on the GPU is found there; the rest was written at the other socket.
  BOOST_TEST(third.counts.cached_tokens == 400u);
  BOOST_TEST(third.counts.others_tokens == third.counts.loaded_tokens);
  BOOST_TEST(third.counts.loaded_tokens > 0u);
}

BOOST_AUTO_TEST_CASE(an_instance_that_fails_leaves_its_blocks) {
  for (const bool is_shared : {true, false}) {
    // Groups 0, 1 and 2 in turn: b has the second request, a the first and the third one, which fails then.
    std::vector<std::string> sets{
        "workload.requests={count: 6, arrivals: constant, rate_per_s: 4, prompt_tokens: 1000, output_tokens: 3, "
        "prefix: {groups: 3, users_per_group: 1, shared_tokens: 512}}",
        "workload.instances=[{name: a}, {name: b}]",
        "workload.router=round_robin",
        kSmallPool,
        "events=[{at_us: 900000, instance: a, fail: true}]",
        is_shared ? kPool : kOwn};
    ServingBench run(tiny_serving(sets, "dgx_h100"));
    run_and_check(run);
    BOOST_TEST(run.served[3].counts.loaded_tokens == (is_shared ? kShared : 0));
    BOOST_TEST(run.served[3].counts.others_tokens == (is_shared ? kShared : 0));
    // Of its own blocks, b's GPU may have some still.
    BOOST_TEST(run.served[4].counts.cached_tokens + run.served[4].counts.loaded_tokens == kShared);
    BOOST_TEST(run.served[5].counts.others_tokens == (is_shared ? kShared : 0));
  }
}

BOOST_AUTO_TEST_CASE(an_instance_that_fails_while_it_copies_gives_the_blocks_free) {
  // At many instants of its first prompts' copies. The memory is that of two prompts: blocks that were left behind would fill it.
  for (int i = 0; i < 12; ++i) {
    std::vector<std::string> sets{
        "workload.requests={count: 9, arrivals: constant, rate_per_s: 400, prompt_tokens: 1000, output_tokens: 3, "
        "prefix: {groups: 3, users_per_group: 1, shared_tokens: 512}}",
        "workload.instances=[{name: a}, {name: b}]",
        "workload.router=round_robin",
        kSmallPool,
        fmt::format("events=[{{at_us: {}, instance: a, fail: true}}, {{at_us: 20000, instance: a, join: host}}]",
                    2500 + 37 * i),
        fmt::format(
            "workload.kv_tiers={{host: {{bytes_per_server: {}, pool: server}}, disk: {{bytes_per_server: 1.0e+8, "
            "gb_per_s: 5, latency_us: 80}}}}",
            1.3e7)};
    ServingBench run(tiny_serving(sets, "dgx_h100"));
    run_and_check(run);
  }
}

BOOST_AUTO_TEST_CASE(only_alike_instances_of_a_server_share_a_pool) {
  const auto shares = [](const std::string& instances) {
    std::vector<std::string> sets = groups(4, 1, instances);
    sets.push_back("machine.groups.gpus.servers=2");
    sets.push_back(kPool);
    ServingBench run(tiny_serving(sets, "dgx_h100"));
    run_and_check(run);
    return sum_of(run, &Scheduler::Counts::others_tokens) > 0;
  };
  BOOST_TEST(shares("{name: a, gpus: [0]}, {name: b, gpus: [7]}"));
  BOOST_TEST(shares("{name: a, tp: 2, gpus: [0, 8]}, {name: b, tp: 2, gpus: [1, 9]}"));
  BOOST_TEST(!shares("{name: a, gpus: [0]}, {name: b, gpus: [8]}"));
  BOOST_TEST(!shares("{name: a, tp: 2, gpus: [0, 8]}, {name: b, tp: 2, gpus: [9, 1]}"));  // heads at different places
  BOOST_TEST(!shares("{name: a, gpus: [0]}, {name: b, tp: 2, gpus: [2, 3]}"));
}

BOOST_AUTO_TEST_CASE(a_replica_has_a_store_of_its_own) {
  constexpr std::uint64_t of_prompt = kPrompt / kBlock, of_prefix = kShared / kBlock;
  for (const std::string mapping : {"dp: 2", "tp: 2, dp: 2"}) {
    for (const bool is_shared : {true, false}) {
      BOOST_TEST_INFO_SCOPE(mapping << (is_shared ? ", one pool" : ", pools of their own"));
      std::vector<std::string> sets = groups(12, 3, "{name: a, " + mapping + "}");
      sets.insert(sets.end(), {kExperts, is_shared ? kPool : kOwn, "workload.engine=sglang-0.5"});  // in turn
      ServingBench run(tiny_serving(sets, "dgx_h100"));
      run_and_check(run);
      KvOffload& offload = *run.service().instance(0).offload();
      const std::uint64_t misses = is_shared ? 3 : 6;
      BOOST_TEST(sum_of(run, &Scheduler::Counts::cached_tokens) == 0u);
      BOOST_TEST(sum_of(run, &Scheduler::Counts::loaded_tokens) == (12 - misses) * kShared);
      BOOST_TEST((sum_of(run, &Scheduler::Counts::others_tokens) > 0) == is_shared);
      BOOST_TEST(offload.loaded() == (12 - misses) * of_prefix * block_bytes(run));
      BOOST_TEST(offload.stored() == (misses * of_prompt + (12 - misses) * (of_prompt - of_prefix)) * block_bytes(run));
    }
  }
}

BOOST_AUTO_TEST_CASE(blocks_of_a_pool_have_writers) {
  KvTier tier(4);
  tier.end_write(tier.begin_write({1, 2}, 7));
  const KvTier::Contents third = tier.begin_write({2, 3}, 8);
  BOOST_TEST(third == KvTier::Contents{3}, boost::test_tools::per_element());
  tier.end_write(third);
  const KvTier::Shares shares = tier.shares({1, 3, 2});
  BOOST_TEST_REQUIRE(shares.size() == 2u);
  BOOST_TEST((shares[0].writer == 7u && shares[0].blocks == 2u && shares[1].writer == 8u && shares[1].blocks == 1u));
  // Store 8 ends while it writes, and store 7 while it writes and reads.
  BOOST_TEST(tier.begin_write({4}, 8).size() == 1u);
  tier.abandon(7);
  BOOST_TEST(tier.held() == 4u);
  tier.abandon(8);
  BOOST_TEST(tier.held() == 3u);
  BOOST_TEST(tier.find({1, 2, 3}, 0) == 3u);
  BOOST_TEST(tier.begin_write({4, 5, 6, 7}, 7).size() == 4u);  // nothing is pinned
}
