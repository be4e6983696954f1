// A collective that is replayed takes of its members' GPUs what a simulated one takes, for the same intervals.
#include <fmt/format.h>
#include <optional>

#include "collective/tuner.h"
#include "execution/course_step.h"
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

namespace {

/// Copies from one GPU to another at instants that are known before.
class Timetable : public transport::Horizon {
 public:
  Timetable(JobBench& bench, std::uint32_t from, std::uint32_t to, const std::vector<std::pair<Time, Bytes>>& copies)
      : Horizon("timetable"), bench_(bench), left_(copies) {
    for (const auto& [when, bytes] : copies)
      bench.later_on(when, [this, from = from, to = to, bytes = bytes] {
        left_.erase(left_.begin());
        begins(bench_.fabric.now());
        bench_.copy(from, {to}, bytes, kCopy);
      });
    bench.when_done = [this](const Job& job) { arrived_ += JobBench::number_of(job) == kCopy ? 1 : 0; };
  }

 private:
  Time next() override {
    if (sends() != arrived_) return bench_.fabric.now();
    return left_.empty() ? Time::max() : left_.front().first;
  }

  static constexpr std::uint32_t kCopy = 1000;
  JobBench& bench_;
  std::vector<std::pair<Time, Bytes>> left_;
  std::uint64_t arrived_ = 0;
};

Time collectives_launch() {
  JobBench bench(tiny_scenario({}, "dgx_h100"), 4);
  Communicator four(bench.ranks, JobBench::kCompute, collective::CollectiveRequest(), bench.fabric);
  return four.choose(collective::Operation::all_reduce, 4 << 20).launch;
}

/// Equal all-reduces of four GPUs, one in each half millisecond, and copies from one of them to a fifth GPU.
Outcome collectives_beside_copies(const std::vector<std::pair<Time, Bytes>>& copies, bool replay) {
  JobBench bench(tiny_scenario({}, "dgx_h100"), 5);
  const std::vector<Rank*> ranks(bench.ranks.begin(), bench.ranks.begin() + 4);
  Communicator four(ranks, JobBench::kCompute, collective::CollectiveRequest(), bench.fabric);
  Timetable timetable(bench, 0, 4, copies);
  if (replay) {
    Communicator::allow_reuse({&four}, {{bench.windows[0], bench.windows[4], 0, nullptr}}, bench.fabric);
    BOOST_TEST((four.reuse() == nullptr));
    Communicator::allow_reuse({&four}, {{bench.windows[0], bench.windows[4], 0, &timetable}}, bench.fabric);
    BOOST_TEST_REQUIRE((four.reuse() != nullptr));
  }
  for (std::uint32_t k = 0; k < 8; ++k)
    bench.later_on(Time::us(500 * (k + 1)),
                   [&, k] { bench.collective(four, four.choose(collective::Operation::all_reduce, 4 << 20), k); });
  bench.run();
  Outcome outcome;
  for (const auto& [number, when] : bench.done) outcome.done[number] = when.fs();
  for (const transport::Device* device : bench.fabric.devices())
    for (std::uint32_t p = 0; p < device->ports(); ++p) {
      const transport::PortCounters& c = device->port(PortId(p)).counters;
      outcome.moved.insert(outcome.moved.end(), {c.transactions, c.wire_bytes, c.peak_queued_bytes});
      outcome.busy.push_back(c.busy);
    }
  outcome.replayed = bench.fabric.replayed_transactions();
  return outcome;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_collective_is_replayed_if_nobody_sends_over_its_links_until_they_are_quiet) {
  const auto replays = [](const std::vector<std::pair<Time, Bytes>>& copies) {
    const Outcome simulated = collectives_beside_copies(copies, false),
                  replayed = collectives_beside_copies(copies, true);
    BOOST_TEST((replayed == simulated));
    return std::make_pair(replayed.replayed, simulated.done);
  };
  const auto [seven, done] = replays({});
  const std::uint64_t one = seven / 7;  // the first one is recorded
  BOOST_TEST_REQUIRE(one > 0u);
  const Time begin = Time::us(1500) + collectives_launch(), end = Time::fs(done.at(2));
  BOOST_TEST_REQUIRE((begin + Time::us(20) < end));
  const auto times = [&](const std::vector<std::pair<Time, Bytes>>& copies) { return replays(copies).first / one; };
  BOOST_TEST(times({{Time::us(1300), 1 << 20}}) == 7u);
  BOOST_TEST(times({{begin - Time::us(1), 1 << 20}}) == 6u);  // under way
  BOOST_TEST(times({{begin, 1 << 20}}) == 6u);
  BOOST_TEST(times({{begin + Time::us(10), 64}}) == 6u);
  BOOST_TEST(times({{begin + Time::us(10), 64}, {end + Time::us(100), 1 << 20}}) == 6u);
  BOOST_TEST(times({{end + Time::us(5), 1 << 20}}) == 7u);
  // From some instant on they are quiet; a femtosecond before it, the collective is simulated.
  Time quiet = end + Time::us(5), not_yet = begin;
  while (quiet - not_yet > Time::fs(1)) {
    const Time between = Time::fs((quiet.fs() + not_yet.fs()) / 2);
    (times({{between, 1 << 20}}) == 7 ? quiet : not_yet) = between;
  }
  BOOST_TEST((quiet > begin + Time::us(20)));
  // A recording that somebody disturbs is none.
  BOOST_TEST(times({{begin - Time::us(990), 1 << 20}}) == 6u);
}

namespace {

struct PassOutcome {
  std::string text;  ///< of all members, exactly
  std::uint64_t composed = 0;
  std::vector<Time> collectives;  ///< ends of those that ran
};

/// What may happen beside a pass.
struct Beside {
  std::vector<std::pair<Time, Bytes>> copies;  ///< from a member to a GPU beside, by a timetable
  std::optional<Time> slow;                    ///< one GPU has half its speed from then on
  std::optional<Time> host;                    ///< each layer is launched so late after the one before
  bool other_kernels = false;  ///< kernels of a layer follow those of the layer before, and then a launch
  bool in_parts = false;  ///< each all-reduce of all is followed at once by one of the first pair and one of the other
};

/// A pass of twelve layers on four GPUs, which begins at 500 us: kernels, all-reduce, and so on, and kernels at its end.
PassOutcome pass_beside(const Beside& beside, bool compose) {
  constexpr std::uint32_t kLayers = 12, kWarm = 1, kSteps = 100, kLast = 2;
  JobBench bench(tiny_scenario({}, "dgx_h100"), 5, {"compute", "comm", "host"});
  bench.records.takes_details = false;
  bench.executor.members_begin_together();
  const std::vector<Rank*> ranks(bench.ranks.begin(), bench.ranks.begin() + 4);
  collective::CollectiveRequest request;
  request.in_graph = true;
  Communicator four(ranks, JobBench::kCompute, request, bench.fabric);
  Timetable timetable(bench, 0, 4, beside.copies);
  request.traffic_class = 1;
  Communicator pairs(ranks, JobBench::kCompute, 2, request, bench.fabric);
  Communicator::allow_reuse({&four, &pairs}, {{bench.windows[0], bench.windows[4], 0, &timetable}}, bench.fabric);
  BOOST_TEST_REQUIRE((pairs.reuse() != nullptr && pairs.reuse() == four.reuse()));
  if (!compose) bench.executor.simulate_every_pass("of the test");
  if (beside.slow) {
    bench.executor.gpus_change_at({*beside.slow});
    bench.later_on(*beside.slow, [&] { ranks[1]->gpu->sms().set_speed(0.5); });
  }
  const collective::CollectiveSpec &reduce = four.choose(collective::Operation::all_reduce, 1 << 20),
                                   &by_pairs = pairs.choose(collective::Operation::all_reduce, 3 << 19);
  const gpu::SharedChain kernels[] = {hbm_kernel_of(Time::us(17), ranks[0]->gpu->datasheet()),
                                      kernel_of(Time::us(23), JobBench::kSms)};
  bench.later_on(Time::us(100), [&] { bench.collective(four, reduce, kWarm); });  // is recorded
  if (beside.in_parts) bench.later_on(Time::us(300), [&] { bench.collective(pairs, by_pairs, kWarm); });
  bench.later_on(Time::us(500), [&] {
    std::vector<execution::CourseStep> steps;
    for (std::uint32_t l = 0; l < kLayers; ++l) {
      if (beside.other_kernels) steps.push_back({&kernels[1], nullptr, nullptr, bench.label(kSteps + 2 * l)});
      steps.push_back(
          {&kernels[l % 2], nullptr, nullptr, bench.label(kSteps + 2 * l), beside.host.value_or(Time()) * (l + 1)});
      steps.push_back({nullptr, &four, &reduce, bench.label(kSteps + 2 * l + 1)});
      if (beside.in_parts) steps.push_back({nullptr, &pairs, &by_pairs, bench.label(kSteps + 2 * kLayers)});
    }
    std::vector<JobRef> last;
    gpu::Stream& host = ranks[0]->stream(2);
    if (bench.executor.not_composed(four) == nullptr) {
      for (execution::CourseStep& step : steps)
        if (step.spec != nullptr) bench.executor.take_turn(step);
      std::vector<execution::CourseLaunches> launches;
      if (beside.host)
        launches.push_back({ranks[0], &host, *beside.host * kLayers, {}, kLayers, bench.label(kSteps - 1)});
      bench.executor.course(four, steps, launches, bench, last, {});
    } else {
      for (const execution::CourseStep& step : steps) {
        if (step.spec != nullptr) {
          bench.collective(*step.communicator, *step.spec, static_cast<std::uint32_t>(step.label.arguments));
          continue;
        }
        const JobRef launched = step.launched != Time()
                                    ? bench.executor.host(*ranks[0], host, *beside.host, bench.label(kSteps - 1), bench)
                                    : JobRef();
        for (Rank* rank : ranks)
          bench.executor.kernel(*rank, rank->stream(JobBench::kCompute), *step.kernels, step.label, bench, {launched});
      }
    }
    for (std::uint32_t m = 0; m < 4; ++m) bench.kernel(m, Time::us(5), kLast + m);
  });
  bench.run();
  PassOutcome outcome;
  for (std::uint32_t m = 0; m < 4; ++m) {
    const gpu::SmArray& sms = ranks[m]->gpu->sms();
    const Time end = bench.done.at(kLast + m);
    outcome.text += fmt::format("{} {} {:a} {:a} {:a} {:a} {}\n", bench.begun.at(kLast + m).fs(), end.fs(),
                                sms.busy_sm_seconds(end), sms.kernel_bytes(end), sms.kernel_seconds(),
                                sms.kernel_seconds_alone(), bench.machine.memory_traffic().bytes(*ranks[m]->gpu));
  }
  for (const transport::Device* device : bench.fabric.devices())
    for (std::uint32_t p = 0; p < device->ports(); ++p) {
      const transport::PortCounters& c = device->port(PortId(p)).counters;
      outcome.text += fmt::format("{} {} {} {}\n", c.transactions, c.wire_bytes, c.busy.fs(), c.peak_queued_bytes);
    }
  outcome.composed = bench.executor.composed_jobs();
  for (std::uint32_t l = 0; l < kLayers; ++l)
    if (const auto found = bench.done.find(kSteps + 2 * l + 1); found != bench.done.end())
      outcome.collectives.push_back(found->second);
  return outcome;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_pass_is_composed_as_far_as_it_is_certain_and_is_as_if_it_had_run) {
  const auto composed = [](const Beside& beside) {
    const PassOutcome ran = pass_beside(beside, false), added = pass_beside(beside, true);
    BOOST_TEST((added.text == ran.text));
    BOOST_TEST(ran.composed == 0u);
    return added.composed;
  };
  // From the first collective to the last one: eleven of collectives and kernels, on four GPUs.
  const std::uint64_t all = composed({});
  BOOST_TEST(all == 11u * 2 * 4);
  const std::vector<Time> ends = pass_beside({}, false).collectives;
  BOOST_TEST_REQUIRE(ends.size() == 12u);
  const Time fs = Time::fs(1);
  for (const std::size_t layer : {0, 2, 6, 10, 11}) {
    for (const Time at : {ends[layer] - fs, ends[layer], ends[layer] + fs, ends[layer] + Time::us(3)}) {
      const std::uint64_t beside_copy = composed({{{at, 1 << 16}}, std::nullopt, std::nullopt});
      BOOST_TEST(beside_copy <= all);
      BOOST_TEST((layer < 11 || beside_copy == all));
      BOOST_TEST(composed({{}, at, std::nullopt}) >= 4u);
    }
  }
  // Composed until a copy begins, and again when it has arrived.
  const std::uint64_t interrupted = composed({{{ends[6] + Time::us(3), 1 << 16}}, std::nullopt, std::nullopt});
  BOOST_TEST(interrupted > all / 2);
  BOOST_TEST(interrupted < all);
  // The host is behind, ahead of, or as fast as the GPUs.
  for (const Time host : {Time::us(5), Time::us(30), ends[5] - ends[4], Time::us(200)})
    for (const bool other_kernels : {false, true})
      BOOST_TEST(composed({{}, std::nullopt, host, other_kernels}) >= (other_kernels ? all / 2 * 3 : all) - 8);
  BOOST_TEST(composed({{}, std::nullopt, std::nullopt, true}) == 11u * 3 * 4);
  // Two collectives in a row, of other members: the last one is not composed.
  BOOST_TEST(composed({{}, std::nullopt, std::nullopt, false, true}) == (11u * 3 + 1) * 4);
  for (const Time at : {ends[0], ends[6], ends[6] + Time::us(3)})
    BOOST_TEST(composed({{{at, 1 << 16}}, std::nullopt, std::nullopt, false, true}) < (11u * 3 + 1) * 4);
}

BOOST_AUTO_TEST_CASE(who_uses_a_gpu_amid_a_composed_pass_without_saying_so_ends_the_run) {
  struct Silent : transport::Horizon {
    Silent() : Horizon("silent") {}
    Time next() override { return Time::max(); }
  };
  JobBench bench(tiny_scenario({}, "dgx_h100"), 5);
  bench.records.takes_details = false;
  bench.executor.members_begin_together();
  const std::vector<Rank*> ranks(bench.ranks.begin(), bench.ranks.begin() + 4);
  Communicator four(ranks, JobBench::kCompute, collective::CollectiveRequest(), bench.fabric);
  Silent silent;
  Communicator::allow_reuse({&four}, {{bench.windows[0], bench.windows[4], 0, &silent}}, bench.fabric);
  const collective::CollectiveSpec& reduce = four.choose(collective::Operation::all_reduce, 1 << 20);
  const gpu::SharedChain kernels = kernel_of(Time::us(50), JobBench::kSms);
  bench.later_on(Time::us(100), [&] { bench.collective(four, reduce, 1); });
  bench.later_on(Time::us(500), [&] {
    std::vector<execution::CourseStep> steps;
    for (std::uint32_t l = 0; l < 20; ++l) {
      steps.push_back({&kernels, nullptr, nullptr, bench.label(2)});
      steps.push_back({nullptr, &four, &reduce, bench.label(3)});
      bench.executor.take_turn(steps.back());
    }
    std::vector<JobRef> last;
    bench.executor.course(four, steps, {}, bench, last, {});
  });
  bench.later_on(Time::us(1000), [&] { bench.copy(0, {4}, 1 << 16, 4); });
  BOOST_CHECK_THROW(sc_core::sc_start(), std::exception);
}
