// Thousands of random schedules: none has a fault, and zb_auto keeps its limit and is never slower than 1f1b.
#define BOOST_TEST_MODULE training_schedule_random
#include <array>
#include <boost/test/unit_test.hpp>
#include <map>
#include <random>

#include "workload/training/schedule/check.h"
#include "workload/training/schedule/slots.h"
#include "workload/training/schedule/spec.h"
#include "workload/training/schedule/text.h"

using namespace railyard;
using namespace railyard::workload::training;

namespace {

struct Case {
  explicit Case(std::uint32_t seed) : random(seed) {
    spec.kind = static_cast<ScheduleKind>(random() % kScheduleNames.size());
    const bool interleaves = spec.kind == ScheduleKind::interleaved;
    do {
      spec.ranks = between(1, 9);
      spec.micro_batches = between(1, 40);
      spec.virtual_stages = interleaves ? between(2, 5) : is_v_shaped(spec.kind) ? 2 : 1;
      spec.group_micro_batches = interleaves && random() % 2 == 0 ? spec.ranks + between(0, 6) : 0;
    } while (illegal_value(spec));
    spec.memory_limit_stages = between(10, 20) / 10.0;
    spec.kept_for_weights = between(1, 5) / 5.0;
    const bool equal = random() % 3 == 0, ideal_links = random() % 3 == 0;
    for (std::uint32_t s = 0; s < spec.ranks * spec.virtual_stages; ++s) {
      StageTimes stage{cost(), cost(), cost(), ideal_links ? Time() : cost(), ideal_links ? Time() : cost()};
      spec.times.push_back(equal && s > 0 ? spec.times[0] : stage);
    }
    schedule = make_schedule(spec);
  }
  std::uint32_t between(std::uint32_t least, std::uint32_t most) { return least + random() % (most - least + 1); }
  Time cost() { return Time::ns(between(0, 30)); }

  std::mt19937 random;
  ScheduleSpec spec;
  Schedule schedule;
};

template <class Check>
void for_all(std::uint32_t cases, Check check) {
  for (std::uint32_t seed = 0; seed < cases; ++seed) {
    Case c(seed);
    BOOST_TEST_CONTEXT("seed " << seed << ": " << name_of(c.spec.kind) << ", " << c.spec.ranks << " ranks, "
                               << c.spec.micro_batches << " micro-batches") {
      check(c);
    }
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(generated_schedules_have_no_fault) {
  for_all(4000, [](Case& c) {
    const auto fault = fault_of(c.schedule);
    BOOST_TEST(!fault.has_value(), (fault ? fault->text : ""));
  });
}

// A slot starts when its rank is free and all that it needs has arrived, and not later.
BOOST_AUTO_TEST_CASE(slots_start_as_soon_as_they_can) {
  for_all(1000, [](Case& c) {
    const ScheduleTimes run = run_schedule(c.schedule, c.spec.times);
    std::map<std::array<std::uint32_t, 3>, Time> ends;  // by result (0: output, 1: gradients), stage, micro-batch
    for (std::uint32_t r = 0; r < c.spec.ranks; ++r) {
      for (std::size_t i = 0; i < run.slots[r].size(); ++i) {
        const Slot& slot = c.schedule.slots[r][i];
        if (slot.kind != SlotKind::backward_weights)
          ends[{slot.kind == SlotKind::forward ? 0u : 1u, slot.stage, slot.micro_batch}] = run.slots[r][i].end;
      }
    }
    for (std::uint32_t r = 0; r < c.spec.ranks; ++r) {
      Time free, busy;
      for (std::size_t i = 0; i < c.schedule.slots[r].size(); ++i) {
        const Slot& slot = c.schedule.slots[r][i];
        const auto arrival = [&](std::uint32_t result, std::uint32_t from) {
          const StageTimes& sender = c.spec.times[from];
          const bool stays = c.schedule.rank_of[from] == r;
          return ends.at({result, from, slot.micro_batch}) + (stays         ? Time()
                                                              : result == 0 ? sender.forward_transfer
                                                                            : sender.backward_transfer);
        };
        Time start = free;
        if (slot.kind == SlotKind::forward && slot.stage > 0) start = later(start, arrival(0, slot.stage - 1));
        if (gives_input_gradients(slot) && slot.stage + 1 < c.schedule.stages())
          start = later(start, arrival(1, slot.stage + 1));
        BOOST_TEST((run.slots[r][i].start == start));
        free = start + c.spec.times[slot.stage].of(slot.kind);
        BOOST_TEST((run.slots[r][i].end == free));
        busy += free - start;
      }
      BOOST_TEST((run.ranks[r].last_end == free));
      BOOST_TEST((run.idle(r) == run.makespan - busy));
    }
  });
}

BOOST_AUTO_TEST_CASE(zb_auto_keeps_its_limit_and_is_never_slower_than_1f1b) {
  for_all(4000, [](Case& c) {
    if (c.spec.kind != ScheduleKind::zb_auto) return;
    const ScheduleTimes run = run_schedule(c.schedule, c.spec.times);
    for (const std::vector<Slot>& slots : c.schedule.slots)
      BOOST_TEST(largest_stash(slots, c.spec.kept_for_weights) <= c.spec.memory_limit_stages * c.spec.ranks + 1e-6);
    ScheduleSpec spec = c.spec;
    spec.kind = ScheduleKind::one_f_one_b;
    const ScheduleTimes other = run_schedule(make_schedule(spec), spec.times);
    BOOST_TEST((run.makespan <= other.makespan));
    BOOST_TEST((run.longest_window() <= other.longest_window()));
  });
}

// With equal stages it is at least as good as the fixed order that keeps as many micro-batches.
BOOST_AUTO_TEST_CASE(zb_auto_is_as_good_as_fixed_orders) {
  for_all(4000, [](Case& c) {
    if (c.spec.kind != ScheduleKind::zb_auto) return;
    c.spec.times[0].forward_transfer = c.spec.times[0].backward_transfer = Time();
    c.spec.times.assign(c.spec.ranks, c.spec.times[0]);
    const auto step = [&](ScheduleKind kind, double limit) {
      ScheduleSpec spec = c.spec;
      spec.kind = kind;
      spec.memory_limit_stages = limit;
      spec.kept_for_weights = 1;
      return run_schedule(make_schedule(spec), spec.times);
    };
    const ScheduleTimes h1 = step(ScheduleKind::zb_h1, 1), h2 = step(ScheduleKind::zb_h2, 1);
    const Time slowest = step(ScheduleKind::one_f_one_b, 1).makespan;
    if (h1.makespan <= slowest) BOOST_TEST((step(ScheduleKind::zb_auto, 1).longest_window() <= h1.longest_window()));
    if (h2.makespan <= slowest) BOOST_TEST((step(ScheduleKind::zb_auto, 2).longest_window() <= h2.longest_window()));
  });
}

BOOST_AUTO_TEST_CASE(a_written_table_reads_back) {
  for_all(1500, [](Case& c) {
    const std::string text = table_of(c.schedule, name_of(c.spec.kind));
    const Schedule back = read_table(text, "table", c.spec.ranks, c.spec.micro_batches);
    BOOST_TEST((back.rank_of == c.schedule.rank_of));
    BOOST_TEST((back.slots == c.schedule.slots));
    BOOST_TEST(back.micro_batches == c.schedule.micro_batches);
  });
}
