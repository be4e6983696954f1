// KV that a kernel copies to host memory and back, instead of copy engines: its SMs, its time, and what the kernels beside it lose.
#include <any>

#include "tests/support/serving_run.h"
#include "tests/support/systemc_main.h"

using namespace railyard;
using namespace railyard::test;
using namespace railyard::workload::inference;

namespace {

constexpr std::uint32_t kShared = 512, kBlock = 16;

/// Four groups whose prompts begin with 512 equal tokens, one after the other, while the GPU has room for one prompt.
Scenario groups(std::uint32_t blocks, double gb_per_s_per_block = 48, const std::string& instance = "{name: a}") {
  Scenario scenario = tiny_serving(
      {"workload.requests={count: 12, arrivals: closed_loop, concurrency: 1, prompt_tokens: 1000, output_tokens: 3, "
       "prefix: {groups: 4, users_per_group: 1, shared_tokens: 512}}",
       "workload.instances=[" + instance + "]", "workload.engine=sglang-0.5", "workload.kv_blocks=66",
       "workload.scheduler.block_tokens=16", "workload.kv_tiers.host.bytes_per_server=1e9"});
  KvCopies& copies = std::any_cast<ServingSpec&>(scenario.workload).instances.front().rules.kv_copies;
  BOOST_TEST(copies.blocks == 2u);  // by its sheet
  copies.blocks = blocks;
  copies.gb_per_s_per_block = gb_per_s_per_block;
  return scenario;
}

double claimed(ServingBench& run) { return run.instance().rank(0).gpu->sms().totals().claim_busy; }

}  // namespace

BOOST_AUTO_TEST_CASE(a_copy_holds_a_block_s_sm_from_its_first_byte_to_its_last_one) {
  for (const std::uint32_t blocks : {0u, 2u, 7u}) {
    ServingBench run(groups(blocks));
    run.run();
    double seconds = 0;  // nothing else claims SMs on one GPU
    for (const char* name : {"KvStore", "KvLoad"})
      for (const JobRow& row : run.records.of(name)) seconds += (row.end - row.start).seconds();
    const double waited = run.instance().rank(0).gpu->sms().claim_wait_seconds();
    BOOST_TEST(claimed(run) == blocks * (seconds - (blocks > 0 ? waited : 0)), boost::test_tools::tolerance(1e-6));
  }
}

BOOST_AUTO_TEST_CASE(bytes_are_those_of_copy_engines) {
  Bytes loaded[2], stored[2];
  for (const std::uint32_t blocks : {0u, 2u}) {
    ServingBench run(groups(blocks, 48, "{name: a, tp: 2}"));
    run.run();
    KvOffload& offload = *run.service().instance(0).offload();
    loaded[blocks / 2] = offload.loaded();
    stored[blocks / 2] = offload.stored();
    for (std::size_t i = 4; i < run.served.size(); ++i) BOOST_TEST(run.served[i].counts.loaded_tokens == kShared);
  }
  BOOST_TEST(loaded[0] == loaded[1]);
  BOOST_TEST(stored[0] == stored[1]);
}

BOOST_AUTO_TEST_CASE(a_load_takes_the_longer_of_link_and_blocks) {
  for (const double gb_per_s : {48.0, 2.0}) {
    ServingBench run(groups(2, gb_per_s));
    run.run();
    Grid& grid = run.instance();
    const Bytes bytes = kShared / kBlock * grid.block_bytes(0, kBlock);
    const Time alone = run.simulation.fabric().uncontended(run.simulation.machine().host_of(GpuId(0)).window(),
                                                           grid.rank(0).gpu->window(), number(TrafficClass::kv), bytes,
                                                           transport::Engine::sm);
    const double by_blocks = static_cast<double>(bytes) / (2 * gb_per_s * 1e9);
    const JobRow& load = run.records.named("KvLoad_PP[0]_TP[0]_Req[11]");
    BOOST_TEST((load.end - load.start).seconds() == std::max(alone.seconds(), by_blocks),
               boost::test_tools::tolerance(0.05));  // the last prompt's blocks may still be on their way to the host
  }
}

BOOST_AUTO_TEST_CASE(kernels_beside_a_copy_lose_its_sms) {
  // Prompts follow each other at once, so that each one is computed while the one before it is copied.
  const auto slowed = [](std::uint32_t blocks) {
    ServingBench run(groups(blocks, 1));
    run.run();
    gpu::SmArray& sms = run.instance().rank(0).gpu->sms();
    return sms.kernel_seconds() / sms.kernel_seconds_alone();
  };
  const double by_engines = slowed(0), by_two = slowed(2), by_half = slowed(54), by_most = slowed(100);
  BOOST_TEST(by_two < 1.01);  // these kernels leave more than two SMs idle
  BOOST_TEST(by_half > by_engines);
  BOOST_TEST(by_most > by_half);
}
