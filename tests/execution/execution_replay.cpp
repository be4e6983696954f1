// A collective that is replayed takes of its members' GPUs what a simulated one takes, for the same intervals.
#include "collective/tuner.h"
#include "sc_main/scenario/datasheets/datasheets.h"
#include "tests/support/job_bench.h"
#include "tests/support/systemc_main.h"

using namespace railyard;
using namespace railyard::test;

namespace {

constexpr std::uint32_t kFirst = 1, kSecond = 2, kThird = 3, kLong = 10, kShort = 11;

struct Outcome {
  std::map<std::uint32_t, std::uint64_t> done;
  std::vector<Bytes> moved;
  double kernel_s = 0;
  std::vector<Time> busy;  ///< of every port, at instants all through the run
  std::uint64_t replayed = 0;
  bool operator==(const Outcome& o) const {
    return done == o.done && moved == o.moved && kernel_s == o.kernel_s && busy == o.busy;
  }
};

/// Three all-reduces of four GPUs, the first alone; beside the second a kernel runs on one GPU that was there before,
/// and one on another GPU begins amid it; the third is over when a last one begins.
Outcome collectives_beside_kernels(bool replay) {
  JobBench bench;
  for (Rank* rank : bench.ranks) rank->gpu->sms().set_speed(1);
  collective::CollectiveRequest request;
  request.engine = scenario::load_engine({"vllm-0.19", "workload.library", {}});
  request.in_graph = true;
  Communicator all(bench.ranks, JobBench::kCompute, request, bench.fabric);
  if (replay) {
    Communicator::allow_reuse({&all}, {}, bench.fabric);
    BOOST_TEST_REQUIRE((all.reuse() != nullptr));
  }
  const auto reduce = [&](std::uint32_t number) {
    bench.collective(all, all.choose(collective::Operation::all_reduce, 4 << 20), number);
  };
  const auto stream = [&](std::uint32_t rank, Time duration, std::uint32_t number) {
    bench.executor.kernel(*bench.ranks[rank], bench.ranks[rank]->stream(JobBench::kComm),
                          hbm_kernel_of(duration, bench.ranks[rank]->gpu->datasheet()), bench.label(number), bench);
  };
  Outcome outcome;
  bench.fabric.follow_charges();
  const auto look = [&] {
    for (const transport::Device* device : bench.fabric.devices())
      for (std::uint32_t p = 0; p < device->ports(); ++p)
        outcome.busy.push_back(device->port(PortId(p)).busy_until(bench.fabric.now()));
  };
  for (std::uint64_t k = 0; k < 100; ++k) bench.later_on(Time::ms(2) + Time::ns(3217 * k), look);
  bench.later_on(Time::us(1), [&] { reduce(kFirst); });
  bench.later_on(Time::ms(2), [&] {
    stream(0, Time::ms(1), kLong);
    reduce(kSecond);
  });
  bench.later_on(Time::ms(2) + Time::us(100), [&] { stream(2, Time::us(50), kShort); });
  bench.later_on(Time::ms(5), [&] { reduce(kThird); });
  bench.run();
  for (const auto& [number, when] : bench.done) outcome.done[number] = when.fs();
  for (const Rank* rank : bench.ranks) {
    outcome.moved.push_back(bench.machine.memory_traffic().bytes(*rank->gpu));
    outcome.kernel_s += rank->gpu->sms().kernel_seconds();
  }
  outcome.replayed = bench.fabric.replayed_transactions();
  return outcome;
}

}  // namespace

BOOST_AUTO_TEST_CASE(kernels_take_as_long_beside_a_replayed_collective_as_beside_a_simulated_one) {
  const Outcome simulated = collectives_beside_kernels(false), replayed = collectives_beside_kernels(true);
  BOOST_TEST(simulated.replayed == 0u);
  BOOST_TEST(replayed.replayed > 0u);
  BOOST_TEST((replayed == simulated));
  // And that is longer than alone, by what the collective's bytes take of HBM while the kernel runs.
  const double longer = static_cast<double>(replayed.done.at(kLong)) * 1e-15 - 3e-3;
  BOOST_TEST(longer > 1e-6);
  for (const auto& [number, when] : simulated.done) BOOST_TEST(replayed.done.at(number) == when, "job " << number);
}
