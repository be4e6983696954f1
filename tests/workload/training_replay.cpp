// Collectives of a training step are replayed where nobody else begins to send over their links meanwhile, slots are composed, and
// everything is as if all had been simulated: random mappings, schedules, overlaps and events.
#include "base/random.h"
#include "sc_main/kinds/training_run.h"
#include "tests/support/job_bench.h"
#include "tests/support/results_text.h"
#include "tests/support/systemc_main.h"
#include "tests/support/training_bench.h"
#include "workload/program/next_sends.h"

using namespace railyard;
using namespace railyard::test;
using namespace railyard::workload;
using namespace railyard::workload::training;

namespace {

struct Outcome {
  std::string text;  ///< all jobs, the counters of all ports, and the times of all ranks
  std::uint64_t transactions = 0, replayed = 0;
  std::uint64_t jobs = 0, composed = 0, slots_composed = 0;
};

enum class Way { simulated, replayed, with_all_jobs, composed };  ///< the last two without rows of a slot's jobs

class TrainedTwice : private FreshKernel {
 public:
  static Outcome run(const Scenario& scenario, Way way) { return TrainedTwice(scenario, way).outcome_; }

 private:
  TrainedTwice(const Scenario& scenario, Way way) : simulation_(scenario, records_) {
    workload::Executor& executor = simulation_.workload().executor();
    records_.takes_details = way == Way::simulated || way == Way::replayed;
    if (way == Way::simulated) executor.simulate_every_collective();
    if (way == Way::with_all_jobs) executor.simulate_every_pass("of the test");
    simulation_.run([](Time) { return true; });
    const auto& step = static_cast<TrainingRun&>(simulation_.workload()).step();
    BOOST_TEST_REQUIRE(step.done());
    std::string& text = outcome_.text;
    // At one instant, jobs of several ranks end in any order.
    std::stable_sort(records_.all.begin(), records_.all.end(),
                     [](const auto& a, const auto& b) { return std::pair(a.end, a.rank) < std::pair(b.end, b.rank); });
    text = results_text(records_, simulation_.fabric());
    for (std::uint32_t r = 0; r < step.mesh().size(); ++r) {
      const RankAccount& a = step.account(r);
      const gpu::Gpu& gpu = *step.mesh().rank(r).gpu;
      text += fmt::format("{:a} {:a} {:a} {:a} {:a} {:a} {}\n", a.kernels_s(), a.host_s(), a.bubble_s(),
                          a.exposed_s(TrafficClass::tp), gpu.sms().kernel_bytes(step.end()), gpu.sms().kernel_seconds(),
                          simulation_.machine().memory_traffic().bytes(gpu));
    }
    outcome_.transactions = simulation_.fabric().hop_transactions();
    outcome_.replayed = simulation_.fabric().replayed_transactions();
    outcome_.jobs = executor.jobs();
    outcome_.composed = executor.composed_jobs();
    outcome_.slots_composed = executor.composed_passes();
  }

  Records records_;
  railyard::Simulation simulation_;
  Outcome outcome_;
};

}  // namespace

BOOST_AUTO_TEST_CASE(training_runs_with_replays_as_without) {
  Random random(5, 0);
  const auto one_of = [&](const std::vector<std::string>& all) { return all[random.below(all.size())]; };
  const auto often = [&](std::uint64_t in) { return random.below(in) == 0; };
  std::uint64_t transactions = 0, replayed = 0;
  for (int trial = 0; trial < 24; ++trial) {
    const std::string platform = one_of({"dgx_h100", "dgx_h100", "dgx_a100", "plx_box"});
    const std::string tp = one_of({"2", "2", "4"}), pp = tp == "4" ? "2" : one_of({"1", "2", "2", "4"});
    std::vector<std::string> sets{"workload.tp=" + tp,
                                  "workload.pp=" + pp,
                                  "workload.seq_tokens=512",
                                  "workload.zero_stage=" + one_of({"0", "1", "2", "3"}),
                                  "workload.global_batch=" + one_of({"8", "16"}),
                                  "workload.launch=" + one_of({"graph", "eager"}),
                                  "workload.sequence_parallel=" + one_of({"true", "true", "false"}),
                                  "workload.dp_overlap=" + one_of({"true", "false"}),
                                  "workload.param_gather_overlap=" + one_of({"true", "false"}),
                                  "workload.bucket_parameters=" + one_of({"1000000", "10000000"}),
                                  "workload.steps=" + one_of({"1", "2"}),
                                  "fabric.fidelity=" + one_of({"train", "train", "fluid"})};
    if (pp != "1") {
      const std::vector<std::string> any{"1f1b", "1f1b", "gpipe", "zb_h1", "zb_h2", "zb_auto"};
      const std::string schedule = pp == "2" && often(3) ? one_of({"interleaved", "zbv"}) : one_of(any);
      sets.push_back("workload.schedule=" + schedule);
      if (schedule == "interleaved" || schedule == "zbv") sets.push_back("workload.virtual_stages=2");
      if (schedule.rfind("zb", 0) != 0) sets.push_back("workload.pp_overlap=" + one_of({"true", "false"}));
      if (often(4)) sets.push_back("workload.grad_norm=post_validation");
    }
    if (often(4)) sets.push_back("workload.recompute=full");
    if (often(4)) sets.push_back("events=[{at_us: 900, gpu: node0.gpu1, slow_ratio: 0.6}]");
    if (often(6)) sets.push_back("events=[{at_us: 900, link: node0.gpu1.pcie, rate_ratio: 0.5}]");
    BOOST_TEST_CONTEXT("trial " << trial << ": " << platform << fmt::format(" {}", fmt::join(sets, " "))) {
      const Scenario scenario = training_scenario(sets, platform);
      const Outcome simulated = TrainedTwice::run(scenario, Way::simulated),
                    with_replays = TrainedTwice::run(scenario, Way::replayed);
      BOOST_TEST((with_replays.text == simulated.text));
      BOOST_TEST(simulated.replayed == 0u);
      if (trial % 2 == 0)
        BOOST_TEST(
            (TrainedTwice::run(scenario, Way::composed).text == TrainedTwice::run(scenario, Way::with_all_jobs).text));
      transactions += with_replays.transactions;
      replayed += with_replays.replayed;
    }
  }
  BOOST_TEST_MESSAGE("replayed " << static_cast<double>(replayed) / static_cast<double>(transactions));
  // Without horizons it would be none: stages or replicas share every switch. Small kernels leave little time between their sends.
  BOOST_TEST(static_cast<double>(replayed) > 0.25 * static_cast<double>(transactions));
}

// Two stages on one NVSwitch.
BOOST_AUTO_TEST_CASE(all_but_the_ends_of_slots_are_replayed_beside_a_pipeline) {
  for (const std::string fidelity : {"train", "fluid"}) {
    const Outcome outcome = TrainedTwice::run(
        training_scenario({"workload.tp=4", "workload.pp=2", "workload.seq_tokens=2048", "workload.global_batch=16",
                           "workload.sequence_parallel=true", "fabric.fidelity=" + fidelity},
                          "dgx_h100"),
        Way::replayed);
    BOOST_TEST_MESSAGE("replayed " << static_cast<double>(outcome.replayed) /
                                          static_cast<double>(outcome.transactions));
    BOOST_TEST(static_cast<double>(outcome.replayed) > 0.8 * static_cast<double>(outcome.transactions));
  }
}

// Forward slots; in backward slots, collectives run beside kernels. In an eager step, kernels of some layers wait for the host.
BOOST_AUTO_TEST_CASE(slots_are_composed_as_if_all_their_jobs_ran) {
  constexpr std::uint64_t kSlots = 16 * 2;  // forward, of two stages with one tensor-parallel group each
  for (const std::string fidelity : {"train", "fluid"})
    for (const std::string launch : {"graph", "eager"}) BOOST_TEST_CONTEXT(fidelity << ", " << launch) {
        const Scenario scenario = training_scenario(
            {"workload.tp=4", "workload.pp=2", "workload.seq_tokens=2048", "workload.global_batch=16",
             "workload.sequence_parallel=true", "fabric.fidelity=" + fidelity, "workload.launch=" + launch},
            "dgx_h100");
        const Outcome composed = TrainedTwice::run(scenario, Way::composed),
                      with_all_jobs = TrainedTwice::run(scenario, Way::with_all_jobs);
        BOOST_TEST((composed.text == with_all_jobs.text));
        BOOST_TEST(with_all_jobs.composed == 0u);
        BOOST_TEST_MESSAGE("jobs " << composed.jobs << ", composed " << composed.composed << ", slots "
                                   << composed.slots_composed);
        BOOST_TEST(composed.slots_composed >= kSlots * 9 / 10);
        BOOST_TEST(composed.composed * 5 > with_all_jobs.jobs);
      }
}

// Two ranks: the first has kernels of 5 us and of 9 us, the second one of 7 us.
BOOST_AUTO_TEST_CASE(a_collective_begins_when_the_last_program_has_come_to_it_and_not_before) {
  JobBench bench;
  const auto at = [&](Time when, std::function<void()> what) { bench.later_on(when, std::move(what)); };
  ProgramClock first, second;
  NextSends sends("DP", bench.fabric, {{&first, true}, {&second, true}});
  const auto expect = [&](Time from) { BOOST_TEST((sends.from() == from), sends.from().seconds() * 1e6 << " us"); };
  at(Time::us(1), [&] {
    expect(Time::us(1));  // whatever is emitted next may begin at once
    first.add(Time::us(5));
    second.add(Time::us(7));
    sends.emitted(0, first.work());
    first.add(Time::us(9));
    expect(Time::us(8));  // on the second rank, it follows what is emitted
    sends.emitted(1, second.work());
    expect(Time::us(8));
  });
  at(Time::us(3), [&] {
    first.begin(Time::us(3));
    expect(Time::us(10));  // the second rank has not begun
  });
  at(Time::us(4), [&] { second.begin(Time::us(4)); });
  at(Time::us(9), [&] {
    first.end(Time::us(5));
    sends.begun(0);
    expect(Time::us(11));
    BOOST_TEST(sends.sends() == 0u);
  });
  at(since(Time::us(11), Time::fs(1)), [&] { BOOST_CHECK_THROW(sends.begun(1), transport::BrokenHorizon); });
  bench.run();
}
