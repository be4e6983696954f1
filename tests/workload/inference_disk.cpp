// KV on disks below host memory: what is written and read, what a read is worth, and what a failure leaves.
#include "tests/support/job_bench.h"
#include "tests/support/systemc_main.h"
#include "tests/support/ttft_sums.h"
#include "workload/inference/kv/host_reads.h"

using namespace railyard;
using namespace railyard::test;
using namespace railyard::workload::inference;

namespace {

constexpr std::uint32_t kPrompt = 1000, kShared = 512, kBlock = 16;

/// Four groups whose prompts begin with 512 equal tokens, a request each in turn. The GPU has room for one prompt, and so has host
/// memory, if there are disks.
std::vector<std::string> groups(std::uint32_t count, const std::string& disk,
                                const std::string& instance = "{name: a}") {
  return {"workload.requests={count: " + std::to_string(count) +
              ", arrivals: constant, rate_per_s: 2, prompt_tokens: 1000, output_tokens: 3, "
              "prefix: {groups: 4, users_per_group: 1, shared_tokens: 512}}",
          "workload.kv_blocks=66", "workload.instances=[" + instance + "]",
          "workload.kv_tiers={host: {bytes_per_server: 1.38e+7}" + (disk.empty() ? "" : ", disk: " + disk) + "}"};
}

std::string disk_of(double gb_per_s, double latency_us) {
  return fmt::format("{{bytes_per_server: 1.0e+9, gb_per_s: {}, latency_us: {}}}", gb_per_s, latency_us);
}

Bytes block_bytes(ServingBench& run) {
  Grid& grid = run.service().instance(0).grid();
  Bytes sum = 0;
  for (std::uint32_t r = 0; r < grid.ranks(); ++r) sum += grid.block_bytes(r / grid.tp(), kBlock);
  return sum;
}

}  // namespace

BOOST_AUTO_TEST_CASE(what_host_memory_has_lost_is_read_from_the_disk) {
  for (const std::string instance : {"{name: a}", "{name: a, tp: 2}", "{name: a, tp: 2, pp: 2}"}) {
    BOOST_TEST_INFO_SCOPE(instance);
    ServingBench run(tiny_serving(groups(12, disk_of(100, 10), instance)));
    run_and_check(run);
    for (std::size_t i = 0; i < run.served.size(); ++i) {
      const Scheduler::Counts& counts = run.served[i].counts;
      BOOST_TEST(counts.cached_tokens == 0u);
      BOOST_TEST(counts.read_tokens == (i < 4 ? 0 : kShared));
      BOOST_TEST(counts.loaded_tokens == (i < 4 ? 0 : kShared));
    }
    // Blocks x bytes of a block, both ways; a block is written once.
    const std::uint64_t of_prompt = kPrompt / kBlock, of_prefix = kShared / kBlock;
    KvOffload& offload = *run.service().instance(0).offload();
    BOOST_TEST(offload.read() == 8 * of_prefix * block_bytes(run));
    BOOST_TEST(offload.written() == (4 * of_prompt + 8 * (of_prompt - of_prefix)) * block_bytes(run));
    BOOST_TEST(offload.loaded() == offload.read());
    BOOST_TEST(offload.stored() == offload.written());
  }
}

// Latency, then bytes at the disk's rate, then the copy over PCIe: a gain where that is less than the kernels of the prefix.
BOOST_AUTO_TEST_CASE(a_read_helps_where_it_takes_less_time_than_the_prompt) {
  const auto with = [](const std::string& disk) {
    Scenario scenario = tiny_serving(groups(5, disk));
    gpu::GpuDatasheet& gpu = scenario.machine.groups.front().gpu;
    gpu.hbm.gb_per_s = gpu.l2.bytes_per_sm_clock = 1e6;  // messages do not slow the kernels
    return scenario;
  };
  const auto seconds = [](const Stay& served) { return (served.times.first_token - served.request.arrival).seconds(); };
  ServingBench computed(with(""));
  run_and_check(computed);
  BOOST_TEST(computed.served[4].counts.loaded_tokens == 0u);
  const double saved =
      (computed.pass_time(chunk(0, kPrompt, true)) - computed.pass_time(chunk(kShared, kPrompt - kShared, true)))
          .seconds();
  const Bytes bytes = kShared / kBlock * block_bytes(computed);
  double copy = 0;
  for (const double share : {0.0, 0.5, 0.98, 1.02, 3.0}) {
    BOOST_TEST_INFO_SCOPE(share);
    // Share of the time that the disk has; half of it is latency.
    const double read_s = share * (saved - copy);
    const double gb_per_s = share > 0 ? static_cast<double>(bytes) / (read_s / 2) * 1e-9 : 1e4;
    ServingBench run(with(disk_of(gb_per_s, read_s / 2 * 1e6)));
    run_and_check(run);
    Stay& read = run.served[4];
    const JobRow& load = run.records.named("KvLoad_PP[0]_TP[0]_Req[4]");
    copy = (load.end - load.start).seconds();
    BOOST_TEST_REQUIRE(copy < saved);
    BOOST_TEST(read.counts.read_tokens == kShared);
    const double kv_s = (share > 0 ? read_s : static_cast<double>(bytes) / 1e13) + copy;
    BOOST_TEST(read.ttft[TtftPart::kv].seconds() == kv_s, boost::test_tools::tolerance(1e-9));
    BOOST_TEST(seconds(read) == seconds(computed.served[4]) - saved + kv_s, boost::test_tools::tolerance(1e-6));
    BOOST_TEST((seconds(read) < seconds(computed.served[4])) == (share < 1));
  }
}

BOOST_AUTO_TEST_CASE(a_disk_outlives_its_instance) {
  // Fails after four prompts, and joins before the fifth one.
  for (const std::string& disk : {std::string(), disk_of(100, 10)}) {
    std::vector<std::string> sets = groups(5, disk);
    sets.push_back("events=[{at_us: 1.6e+6, instance: a, fail: true}, {at_us: 1.7e+6, instance: a, join: host}]");
    ServingBench run(tiny_serving(sets));
    run_and_check(run);
    BOOST_TEST(run.served[4].restarts == 0u);
    BOOST_TEST(run.served[4].counts.read_tokens == (disk.empty() ? 0 : kShared));
    BOOST_TEST(run.served[4].counts.loaded_tokens == (disk.empty() ? 0 : kShared));
  }
}

BOOST_AUTO_TEST_CASE(reads_of_a_disk_come_one_after_the_other_and_share_its_latency) {
  // 1 GB/s and 5 ms: reads of 10, 20 and 1 MB at once, and one when the disk is idle again; a write beside them.
  JobBench bench;
  KvDisk disk(0, {1e9, 1, 5000}, bench.executor);
  disk.read(10'000'000, bench.label(0), bench);
  disk.read(20'000'000, bench.label(1), bench);
  disk.read(1'000'000, bench.label(2), bench);
  disk.write(7'000'000, bench.label(3), bench);
  bench.later_on(Time::us(50'000), [&] { disk.read(2'000'000, bench.label(4), bench); });
  bench.run();
  BOOST_TEST((bench.done[0] == Time::us(15'000)));
  BOOST_TEST((bench.done[1] == Time::us(35'000)));
  BOOST_TEST((bench.done[2] == Time::us(36'000)));
  BOOST_TEST((bench.done[3] == Time::us(12'000)));
  BOOST_TEST((bench.done[4] == Time::us(57'000)));
}

BOOST_AUTO_TEST_CASE(instances_of_a_server_share_its_disk) {
  // A read is asked for while the latency of another one goes on.
  std::vector<std::string> sets = groups(10, "", "{name: a, gpus: [0]}, {name: b, gpus: [4]}");
  sets[0] =
      "workload.requests={count: 10, arrivals: constant, rate_per_s: 4, prompt_tokens: 1000, output_tokens: 3, prefix: "
      "{groups: 8, users_per_group: 1, shared_tokens: 512}}";
  sets[3] = "workload.kv_tiers={host: {bytes_per_server: 2.76e+7}, disk: " + disk_of(100, 400'000) + "}";
  sets.push_back("workload.router=round_robin");
  ServingBench run(tiny_serving(sets));
  run_and_check(run);
  const JobRow &first = run.records.named("KvRead_Disk[0]_No[0]_Inst[a]"),
               &second = run.records.named("KvRead_Disk[0]_No[0]_Inst[b]");
  const double bytes_s = static_cast<double>(kShared / kBlock) * static_cast<double>(block_bytes(run)) / 100e9;
  BOOST_TEST((first.end - first.start).seconds() == 0.4 + bytes_s, boost::test_tools::tolerance(1e-9));
  BOOST_TEST((second.end - first.end).seconds() == 0.25, boost::test_tools::tolerance(1e-4));
}

BOOST_AUTO_TEST_CASE(requests_join_a_read_of_the_same_blocks) {
  HostReads reads;
  const std::uint32_t number = reads.begin({11, 12}, {});
  reads.join(number, 1);
  BOOST_TEST((reads.of(12) == number));
  BOOST_TEST(!reads.of(13).has_value());
  reads.join(number, 2);
  reads.join(number, 3);
  reads.leave(2);
  const HostReads::Read read = reads.end(number);
  BOOST_TEST((read.requests == std::vector<std::uint32_t>{1, 3}));
  BOOST_TEST((read.contents == KvTier::Contents{11, 12}));
  BOOST_TEST(!reads.of(11).has_value());
  BOOST_TEST(reads.begin({11}, {}) != number);
}

BOOST_AUTO_TEST_CASE(what_is_not_written_when_an_instance_fails_is_not_there) {
  KvTier disk(4);
  disk.end_write(disk.begin_write({1, 2}));
  disk.begin_read({1});
  disk.begin_write({3});
  disk.interrupt();
  BOOST_TEST(disk.held() == 2u);
  BOOST_TEST(!disk.has(3));
  BOOST_TEST(disk.begin_write({4, 5, 6, 7}).size() == 4u);  // nobody reads 1 any more
}
