// Copies of KV in host memory: what is stored and loaded, over which links, and what a load is worth.
#include "tests/support/systemc_main.h"
#include "tests/support/ttft_sums.h"
#include "workload/inference/kv/kv_tier.h"

using namespace railyard;
using namespace railyard::test;
using namespace railyard::workload::inference;

namespace {

constexpr std::uint32_t kPrompt = 1000, kShared = 512, kBlock = 16;
const std::string kOneByOne = "arrivals: closed_loop, concurrency: 1, prompt_tokens: 1000, output_tokens: 3, ";
/// Four groups whose prompts begin with 512 equal tokens, one after the other, while the GPU has room for one prompt.
std::string groups(std::uint32_t count) {
  return "workload.requests={count: " + std::to_string(count) + ", " + kOneByOne +
         "prefix: {groups: 4, users_per_group: 1, shared_tokens: 512}}";
}
const std::string kSmallPool = "workload.kv_blocks=66";
const std::string kHost = "workload.kv_tiers.host.bytes_per_server=1e9";

Bytes block_bytes(ServingBench& run, std::size_t instance = 0) {
  Grid& grid = run.service().instance(instance).grid();
  Bytes sum = 0;
  for (std::uint32_t r = 0; r < grid.ranks(); ++r) sum += grid.block_bytes(r / grid.tp(), kBlock);
  return sum;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_prompt_loads_what_the_gpu_has_no_more) {
  for (const std::string instance : {"{name: a}", "{name: a, tp: 2}", "{name: a, tp: 2, pp: 2}"}) {
    ServingBench run(tiny_serving({groups(12), kSmallPool, kHost, "workload.instances=[" + instance + "]"}));
    run_and_check(run);
    for (Stay& served : run.served) {
      BOOST_TEST(served.counts.cached_tokens == 0u);
      // The first prompts of the groups come first.
      const bool is_first = served.request.arrival < run.served[4].request.arrival;
      BOOST_TEST(served.counts.loaded_tokens == (is_first ? 0 : kShared));
      BOOST_TEST((served.ttft[TtftPart::kv] > Time()) == !is_first);
    }
    // Both ways over PCIe: blocks x bytes of a block. Full blocks of a prompt are stored once.
    const std::uint64_t of_prompt = kPrompt / kBlock, of_prefix = kShared / kBlock;
    KvOffload& offload = *run.service().instance(0).offload();
    BOOST_TEST(offload.loaded() == 8 * of_prefix * block_bytes(run));
    BOOST_TEST(offload.stored() == (4 * of_prompt + 8 * (of_prompt - of_prefix)) * block_bytes(run));
    BOOST_TEST(run.simulation.fabric().ledger().totals(number(TrafficClass::kv)).bytes ==
               offload.loaded() + offload.stored());
  }
}

BOOST_AUTO_TEST_CASE(a_load_takes_the_time_of_its_bytes) {
  ServingBench run(tiny_serving({groups(5), kSmallPool, kHost, "workload.engine=none"}));
  run_and_check(run);
  Grid& grid = run.service().instance(0).grid();
  const auto window = grid.rank(0).gpu->window();
  const transport::Window host = run.simulation.machine().host_of(GpuId(0)).window();
  const Time alone = run.simulation.fabric().uncontended(host, window, number(TrafficClass::kv),
                                                         kShared / kBlock * grid.block_bytes(0, kBlock),
                                                         transport::Engine::copy_engine);
  const Time start = Time::seconds(grid.rank(0).gpu->datasheet().copy.engine_us * 1e-6);
  // Some of the last prompt's blocks are still on their way to host memory, in the other direction.
  BOOST_TEST((run.served[4].ttft[TtftPart::kv] - start).seconds() == alone.seconds(),
             boost::test_tools::tolerance(0.05));
}

BOOST_AUTO_TEST_CASE(loads_help_only_where_they_are_faster_than_the_prompt) {
  std::vector<double> gain;
  for (const std::string gb_per_s : {"60", "16"}) {
    double ttft[2];
    for (const bool loads : {false, true}) {
      std::vector<std::string> sets{groups(8), kSmallPool, "machine.overrides.plx_uplink.gb_per_s=" + gb_per_s};
      if (loads) sets.push_back(kHost);
      ServingBench run(tiny_serving(sets));
      run_and_check(run);
      ttft[loads] = (run.served[7].times.first_token - run.served[7].request.arrival).seconds();
    }
    gain.push_back(ttft[0] - ttft[1]);
  }
  BOOST_TEST(gain[0] > 0);
  BOOST_TEST(gain[1] < 0);
}

BOOST_AUTO_TEST_CASE(a_preempted_request_loads_its_prompt) {
  const std::vector<std::string> load{
      "workload.requests={count: 12, arrivals: at_once, prompt_tokens: 160, output_tokens: 300}",
      "workload.kv_blocks=60"};
  std::vector<std::string> with_host = load;
  with_host.push_back(kHost);
  const auto recomputed = [](const std::vector<std::string>& sets, bool loads) {
    ServingBench run(tiny_serving(sets));
    run_and_check(run);
    KvOffload* const offload = run.service().instance(0).offload();
    BOOST_TEST((offload != nullptr && offload->loaded() > 0) == loads);
    std::uint64_t sum = 0, preemptions = 0;
    for (const Stay& served : run.served) {
      sum += served.counts.recomputed_tokens;
      preemptions += served.counts.preemptions;
    }
    BOOST_TEST(preemptions > 0u);
    return sum;
  };
  BOOST_TEST(recomputed(with_host, true) < recomputed(load, false));
}

BOOST_AUTO_TEST_CASE(the_least_recently_used_blocks_make_room) {
  KvTier tier(3);
  const auto write = [&](const KvTier::Contents& contents) {
    const KvTier::Contents written = tier.begin_write(contents);
    tier.end_write(written);
    return written.size();
  };
  BOOST_TEST(write({1, 2}) == 2u);
  BOOST_TEST(tier.find({1, 2, 3}, 0) == 2u);
  BOOST_TEST(tier.find({1, 2, 3}, 1) == 1u);
  BOOST_TEST(tier.find({3, 1}, 0) == 0u);
  BOOST_TEST(write({2, 3}) == 1u);  // 2 is here already
  tier.touch({1});
  BOOST_TEST(write({4}) == 1u);  // instead of 2
  BOOST_TEST(tier.find({2}, 0) == 0u);
  BOOST_TEST(tier.find({1}, 0) == 1u);
  tier.begin_read({1, 3});
  BOOST_TEST(tier.begin_write({5, 6}).empty());  // only 4 may go
  BOOST_TEST(tier.find({4}, 0) == 1u);
  const KvTier::Contents five = tier.begin_write({5});
  BOOST_TEST(tier.find({5}, 0) == 0u);  // not written yet
  BOOST_TEST(tier.begin_write({6}).empty());
  tier.end_write(five);
  tier.end_read({1, 3});
  BOOST_TEST(tier.find({5}, 0) == 1u);
  BOOST_TEST(tier.held() == 3u);
}
