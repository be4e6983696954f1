// The executor against the reference scheduler (schedule/times.h): with slots of given lengths, each slot of each schedule
// starts when the reference says, with transfers as measured; its step is the closed form's; and the peak of memory is
// what the plan says.
#include "tests/support/systemc_main.h"
#include "tests/support/training_bench.h"
#include "workload/training/plan/planned_step.h"
#include "workload/training/schedule/ideal.h"
#include "workload/training/schedule/text.h"

using namespace railyard;
using namespace railyard::test;
using namespace railyard::workload::training;

namespace {

using Kind = ScheduleKind;

struct Shape {
  Kind kind;
  std::uint32_t p, m, v;
};
const std::vector<Shape>& shapes() {
  static const std::vector<Shape> all{
      {Kind::naive, 3, 3, 1},       {Kind::gpipe, 2, 5, 1},       {Kind::gpipe, 4, 6, 1},
      {Kind::one_f_one_b, 2, 1, 1}, {Kind::one_f_one_b, 4, 8, 1}, {Kind::one_f_one_b, 4, 3, 1},
      {Kind::interleaved, 2, 5, 3}, {Kind::interleaved, 4, 8, 2}, {Kind::zb_h1, 2, 4, 1},
      {Kind::zb_h1, 4, 8, 1},       {Kind::zb_h2, 4, 8, 1},       {Kind::zb_h2, 3, 2, 1},
      {Kind::zb_auto, 4, 8, 1},     {Kind::zbv, 2, 3, 2},         {Kind::zbv, 4, 8, 2},
      {Kind::dualpipe_v, 2, 4, 2},  {Kind::dualpipe_v, 4, 9, 2}};
  return all;
}

/// W is shorter than B, which is shorter than F; times are no multiples of the grid of collectives.
const StageTimes kEqual{Time::ns(1'000'033), Time::ns(900'011), Time::ns(600'007), {}, {}};

ScheduleSpec spec_of(const Shape& shape, const std::vector<StageTimes>& times) {
  ScheduleSpec spec;
  spec.kind = shape.kind;
  spec.ranks = shape.p;
  spec.micro_batches = shape.m;
  spec.virtual_stages = shape.v;
  spec.times = times;
  return spec;
}

/// Stages with different times, so that ranks wait for each other in both directions.
std::vector<StageTimes> uneven(std::uint32_t stages) {
  std::vector<StageTimes> times;
  for (std::uint64_t s = 0; s < stages; ++s)
    times.push_back({Time::ns(1'000'033 + 77'777 * (s * 3 % 4)),
                     Time::ns(900'011 + 99'999 * (s * 2 % 3)),
                     Time::ns(600'007 + 55'555 * (s % 2)),
                     {},
                     {}});
  return times;
}

/// Calls check(shape, times) with equal and with uneven stages.
template <class Check>
void for_all(Check check) {
  for (const Shape& shape : shapes()) {
    for (const bool equal : {true, false}) {
      const std::uint32_t stages = shape.p * shape.v;
      BOOST_TEST_CONTEXT(name_of(shape.kind) << ", p " << shape.p << ", m " << shape.m << ", v " << shape.v
                                             << (equal ? ", equal" : ", uneven") << " stages") {
        check(shape, equal ? std::vector<StageTimes>(stages, kEqual) : uneven(stages));
      }
    }
  }
}

TrainingBench bench_of(const Shape& shape, const std::vector<StageTimes>& times, bool pp_overlap) {
  return TrainingBench(make_schedule(spec_of(shape, times)), times, pp_overlap);
}

/// Calls check(rank, position, slot, row) for each slot.
template <class Check>
void for_slots(const TrainingBench& b, Check check) {
  for (std::uint32_t r = 0; r < b.schedule.ranks(); ++r)
    for (std::size_t i = 0; i < b.schedule.slots[r].size(); ++i)
      check(r, i, b.schedule.slots[r][i], b.row(r, b.schedule.slots[r][i]));
}

/// Transfers begin on a grid.
constexpr Time kGrid = Time::ns(100);

/// The longest transfer, from the instant at which both ranks were ready.
Time longest_transfer(const TrainingBench& b) {
  Time longest;
  for_slots(b, [&](std::uint32_t, std::size_t, const Slot& slot, const JobRow&) {
    const auto from = b.source(slot);
    if (!from) return;
    const JobRow& transfer = b.transfer(*from, slot);
    longest = later(longest, transfer.end - transfer.start - transfer.queued);
  });
  return longest + kGrid;
}

}  // namespace

// The recurrence of the reference scheduler, to the femtosecond.
BOOST_AUTO_TEST_CASE(a_slot_starts_when_its_rank_is_free_and_its_input_has_arrived) {
  for_all([](const Shape& shape, const std::vector<StageTimes>& times) {
    const TrainingBench b = bench_of(shape, times, true);
    for_slots(b, [&](std::uint32_t r, std::size_t i, const Slot& slot, const JobRow& row) {
      Time ready = i == 0 ? Time() : b.row(r, b.schedule.slots[r][i - 1]).end;
      if (const auto from = b.source(slot)) ready = later(ready, b.transfer(*from, slot).end);
      BOOST_TEST((row.start == ready), row.name());
      BOOST_TEST((row.end - row.start == times[slot.stage].of(slot.kind)), row.name());
    });
  });
}

// No start is before the reference's with transfers that have their links alone, or after the reference's with transfers
// that are all as long as the longest.
BOOST_AUTO_TEST_CASE(slots_start_when_the_reference_scheduler_says) {
  for_all([](const Shape& shape, const std::vector<StageTimes>& times) {
    TrainingBench b = bench_of(shape, times, true);
    const Time alone = b.alone(0, 1, pipeline_bytes(b.scenario.model, b.spec)), longest = longest_transfer(b);
    BOOST_TEST((longest <= alone * 2 + kGrid));  // two transfers may share a link
    const auto reference = [&, &of = times](Time transfer) {
      std::vector<StageTimes> with = of;
      for (StageTimes& stage : with) stage.forward_transfer = stage.backward_transfer = transfer;
      return run_schedule(b.schedule, with);
    };
    const ScheduleTimes early = reference(alone), late = reference(longest);
    for_slots(b, [&](std::uint32_t r, std::size_t i, const Slot&, const JobRow& row) {
      BOOST_TEST((row.start >= early.slots[r][i].start), row.name());
      BOOST_TEST((row.start <= late.slots[r][i].start), row.name());
    });
    BOOST_TEST((b.makespan() >= early.makespan));
    BOOST_TEST((b.makespan() <= late.makespan));
  });
}

BOOST_AUTO_TEST_CASE(equal_stages_take_the_closed_form_and_a_few_transfers) {
  for (const Shape& shape : shapes()) {
    BOOST_TEST_CONTEXT(name_of(shape.kind) << ", p " << shape.p << ", m " << shape.m << ", v " << shape.v) {
      const std::vector<StageTimes> times(shape.p * shape.v, kEqual);
      const auto form = closed_form_step(spec_of(shape, times), kEqual);
      if (!form || shape.kind == Kind::zb_h2) continue;  // zb_h2: of its longest rank, not of the step
      const TrainingBench b = bench_of(shape, times, true);
      const Time longest = longest_transfer(b);
      BOOST_TEST((b.makespan() >= *form));
      // At most every slot of a rank waits for a transfer on the longest path.
      BOOST_TEST((b.makespan() <= *form + longest * (2 * shape.m * shape.v + 2 * shape.p)));
      BOOST_TEST((longest * (2 * shape.m * shape.v + 2 * shape.p) < kEqual.forward));
    }
  }
}

// Launches before the wait, then the wait and its call, then launches; each kernel begins when it is launched and the one
// before has ended.
BOOST_AUTO_TEST_CASE(the_host_waits_for_kernels_before_it_launches_more) {
  const std::vector<TrainingBench::AwaitedStep> cases{
      {1000, {3, 2, 4}, {Time::us(10), Time::us(20), Time::us(30)}},    // the host is slower than the GPU
      {100, {1, 1, 5}, {Time::us(2000), Time::us(50), Time::us(300)}},  // the GPU has nothing to do after the wait
      {10, {1, 2, 3}, {Time::us(2000), Time::us(5000), Time::us(70)}},  // the second step hides the launches
  };
  for (const TrainingBench::AwaitedStep& c : cases) {
    const TrainingBench b(make_schedule(spec_of({Kind::gpipe, 1, 1, 1}, {kEqual})), {kEqual}, false, GradientNorm::none,
                          1, c);
    const auto launch = [&](std::uint32_t kernels) { return Time::seconds(kernels * c.host_us * 1e-6); };
    const Time first = launch(c.launches[0]), second = first + launch(c.launches[1]);
    const Time first_end = first + c.kernels[0], second_end = later(second, first_end) + c.kernels[1];
    const Time third = later(second, first_end) + launch(1) + launch(c.launches[2]);
    const Time end = later(third, second_end) + c.kernels[2];
    BOOST_TEST((b.row(0, b.schedule.slots[0].front()).end == end));
    const StageTimes planned = planned_times(*b.plans, b.spec, b.step->mesh(), b.fabric, 0).front();
    BOOST_TEST(planned.forward.seconds() == end.seconds(), boost::test_tools::tolerance(1e-9));
  }
}

// A barrier between steps adds the skew of zb_h2, by which the last stage begins later. Without a barrier, a step takes
// the longest stage's own window (Qi et al., arXiv 2401.10241, section 4).
BOOST_AUTO_TEST_CASE(only_a_barrier_adds_the_skew_of_zb_h2_to_a_step) {
  for (const std::uint32_t p : {2u, 3u, 4u}) {
    const Shape shape{Kind::zb_h2, p, 8, 1};
    const std::vector<StageTimes> times(p, kEqual);
    const Schedule schedule = make_schedule(spec_of(shape, times));
    const double window = closed_form_step(spec_of(shape, times), kEqual)->seconds();
    const double skew = (p - 1) * kEqual.forward.seconds();
    double waits = 0;  // transfers on the longest path, and the end of the step
    const auto period = [&](GradientNorm norm) {
      TrainingBench two(schedule, times, true, norm, 2), four(schedule, times, true, norm, 4);
      waits = four.step->account(0).optimizer_s() / 4 +
              four.alone(0, 1, pipeline_bytes(four.scenario.model, four.spec)).seconds() * 2 * (2 * shape.m + 2 * p);
      return (four.step->end() - two.step->end()).seconds() / 2;
    };
    for (const GradientNorm norm : {GradientNorm::none, GradientNorm::post_validation}) {
      const double step = period(norm);
      BOOST_TEST(step >= window);
      BOOST_TEST(step <= window + waits);
    }
    const double with_barrier = period(GradientNorm::before);
    // The last stage has no bubble, but begins later.
    const double last_stage = shape.m * kEqual.all().seconds() + skew;
    BOOST_TEST(with_barrier >= last_stage);
    BOOST_TEST(with_barrier <= last_stage + waits);
    BOOST_TEST(waits < 0.3 * skew);
  }
}

// Without pp_overlap the next slot waits until the result has left, too. A result this small leaves before the other rank
// receives it.
BOOST_AUTO_TEST_CASE(without_overlap_a_slot_waits_for_the_send_before_it) {
  for_all([](const Shape& shape, const std::vector<StageTimes>& times) {
    if (shape.kind > Kind::one_f_one_b) return;  // interleaved slots exchange in pairs; other schedules need overlap
    TrainingBench b = bench_of(shape, times, false);
    for_slots(b, [&](std::uint32_t r, std::size_t i, const Slot& slot, const JobRow& row) {
      if (i == 0) return;
      const Slot& before = b.schedule.slots[r][i - 1];
      const Time end = b.row(r, before).end;
      const auto from = b.source(slot);
      const Time ready = from ? later(end, b.transfer(*from, slot).end) : end;
      if (!b.is_sent(before)) {
        BOOST_TEST((row.start == ready), row.name());
        return;
      }
      BOOST_TEST((row.start == later(ready, b.transfer(before, b.destination(before)).end)), row.name());
    });
  });
}

BOOST_AUTO_TEST_CASE(memory_peaks_where_the_plan_says) {
  for_all([](const Shape& shape, const std::vector<StageTimes>& times) {
    const TrainingBench b = bench_of(shape, times, true);
    for (std::uint32_t r = 0; r < shape.p; ++r) {
      BOOST_TEST(b.ranks[r]->gpu->hbm().peak() == b.memory->peak(r).total());
      BOOST_TEST(b.ranks[r]->gpu->hbm().used() == b.memory->fixed(r) + b.memory->peak(r).gathered);
    }
  });
}

// Kernels are the reference's busy time, and everything else but the optimizer is idle time, to the femtosecond.
BOOST_AUTO_TEST_CASE(times_of_a_rank_add_up) {
  for_all([](const Shape& shape, const std::vector<StageTimes>& times) {
    const TrainingBench b = bench_of(shape, times, true);
    const ScheduleTimes reference = run_schedule(b.schedule, times);
    for (std::uint32_t r = 0; r < shape.p; ++r) {
      const RankAccount& account = b.step->account(r);
      BOOST_TEST(account.counted().seconds() == b.step->end().seconds());
      BOOST_TEST(account.kernels_s() == reference.ranks[r].busy.seconds());
      BOOST_TEST(account.host_s() == 0);
      BOOST_TEST(account.exposed_s(TrafficClass::tp) == 0);
      BOOST_TEST(account.exposed_s(TrafficClass::dp) == 0);
    }
  });
}

// A rank receives in the order in which it needs the results, also if the other rank sends them in another order.
BOOST_AUTO_TEST_CASE(ranks_may_take_micro_batches_in_different_orders) {
  const Schedule schedule = read_table(
      "rank 0: F0 F1 B1 B0\n"
      "rank 1: F0 F1 B0 B1\n",
      "t", 2, 2);
  const TrainingBench b(schedule, std::vector<StageTimes>(2, kEqual), true);
  const Slot last{SlotKind::backward, 0, 1};
  BOOST_TEST((b.row(0, last).start == b.transfer({SlotKind::backward, 1, 1}, last).end));
  BOOST_TEST((b.row(0, {SlotKind::backward, 0, 0}).start == b.row(0, last).end));
}

// _V[] counts the virtual stages of a rank, wherever a table puts them.
BOOST_AUTO_TEST_CASE(each_slot_has_a_name_of_its_own) {
  const Schedule schedule = read_table(
      "holders: 0 0 1 1\n"
      "rank 0: F0v0 F0v1 B0v1 B0v0\n"
      "rank 1: F0v0 F0v1 B0v1 B0v0\n",
      "t", 2, 1);
  const TrainingBench b(schedule, std::vector<StageTimes>(4, kEqual), true);
  Time end;
  for (const char* name : {"F_PP[0]_TP[0]_MB[0]_V[0]", "F_PP[0]_TP[0]_MB[0]_V[1]", "F_PP[1]_TP[0]_MB[0]_V[0]",
                           "F_PP[1]_TP[0]_MB[0]_V[1]", "B_PP[1]_TP[0]_MB[0]_V[1]", "B_PP[1]_TP[0]_MB[0]_V[0]",
                           "B_PP[0]_TP[0]_MB[0]_V[1]", "B_PP[0]_TP[0]_MB[0]_V[0]"}) {
    BOOST_TEST((b.records.named(name).start >= end), name);
    end = b.records.named(name).end;
  }
}
