// Step times and kept activations of schedules against their closed forms, to the femtosecond, for equal stages and
// transfers that take no time; and illegal choices.
#define BOOST_TEST_MODULE training_schedule
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <optional>
#include <utility>

#include "workload/training/schedule/generators.h"
#include "workload/training/schedule/ideal.h"
#include "workload/training/schedule/slots.h"

using namespace railyard;
using namespace railyard::workload::training;

namespace {

using Kind = ScheduleKind;

StageTimes stage_of(std::uint64_t forward, std::uint64_t inputs, std::uint64_t weights) {
  return {Time::ns(forward), Time::ns(inputs), Time::ns(weights), {}, {}};
}

/// Costs with W below, between and above F and B.
const std::vector<StageTimes>& costs() {
  static const std::vector<StageTimes> all{
      stage_of(1, 1, 1), stage_of(3, 4, 2),   stage_of(10, 12, 7), stage_of(10, 3, 2),   stage_of(2, 7, 7),
      stage_of(5, 9, 0), stage_of(10, 10, 7), stage_of(3, 1, 5),   stage_of(10, 10, 11), stage_of(7, 3, 5)};
  return all;
}

struct Outcome {
  Outcome(Kind kind, std::uint32_t p, std::uint32_t m, std::uint32_t v, const StageTimes& times) : stage(times) {
    spec.kind = kind;
    spec.ranks = p;
    spec.micro_batches = m;
    spec.virtual_stages = v;
    schedule = make_schedule(spec);
    run = run_schedule(schedule, std::vector<StageTimes>(p * v, stage));
  }
  Time form() const { return closed_form_step(spec, stage).value(); }
  bool keeps_the_closed_form() const {
    for (std::uint32_t r = 0; r < spec.ranks; ++r)
      if (run.ranks[r].stash != closed_form_stash(spec, r)) return false;
    return true;
  }

  StageTimes stage;
  ScheduleSpec spec;
  Schedule schedule;
  ScheduleTimes run;
};

/// Calls check(p, m, costs) for many of them.
template <class Check>
void for_many(Check check) {
  for (std::uint32_t p : {1, 2, 3, 4, 7, 8}) {
    for (std::uint32_t m : {1, 2, 3, 4, 5, 8, 11, 16, 24}) {
      for (const StageTimes& stage : costs()) {
        BOOST_TEST_CONTEXT("p " << p << ", m " << m << ", F " << stage.forward.seconds() << ", B "
                                << stage.backward_inputs.seconds() << ", W " << stage.backward_weights.seconds()) {
          check(p, m, stage);
        }
      }
    }
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(naive_runs_one_rank_at_a_time) {
  for_many([](std::uint32_t p, std::uint32_t m, const StageTimes& stage) {
    const Outcome o(Kind::naive, p, m, 1, stage);
    BOOST_TEST((o.run.makespan == stage.all() * m * p));
    BOOST_TEST((o.form() == o.run.makespan));
    BOOST_TEST(o.keeps_the_closed_form());
  });
}

BOOST_AUTO_TEST_CASE(whole_backward_slots_leave_p_minus_1_slots_idle) {
  for_many([](std::uint32_t p, std::uint32_t m, const StageTimes& stage) {
    for (const Kind kind : {Kind::gpipe, Kind::one_f_one_b}) {
      const Outcome o(kind, p, m, 1, stage);
      BOOST_TEST((o.run.makespan == stage.all() * (m + p - 1)));
      BOOST_TEST((o.run.idle(p - 1) == stage.all() * (p - 1)));
      BOOST_TEST((o.form() == o.run.makespan));
      BOOST_TEST(o.keeps_the_closed_form());
    }
  });
}

// The idle time is that of 1f1b divided by the virtual stages of a rank.
BOOST_AUTO_TEST_CASE(interleaving_divides_idle_time) {
  for_many([](std::uint32_t p, std::uint32_t groups, const StageTimes& stage) {
    for (const std::uint32_t v : {2, 3, 4}) {
      const std::uint32_t m = p * groups;
      const Outcome o(Kind::interleaved, p, m, v, stage);
      BOOST_TEST((o.run.makespan == stage.all() * v * m + stage.all() * (p - 1)));
      BOOST_TEST((o.form() == o.run.makespan));
      BOOST_TEST(o.keeps_the_closed_form());
    }
  });
}

// 5 micro-batches in groups of 3: 0, 1, 2 in each virtual stage of rank 0, then 3 and 4. Backward: last stage first.
BOOST_AUTO_TEST_CASE(interleaving_takes_groups_in_turn) {
  ScheduleSpec spec;
  spec.kind = Kind::interleaved;
  spec.ranks = spec.virtual_stages = 2;
  spec.micro_batches = 5;
  spec.group_micro_batches = 3;
  const Schedule schedule = make_schedule(spec);
  std::string forward, backward;  // virtual stage and micro-batch
  for (const Slot& slot : schedule.slots[0])
    (slot.kind == SlotKind::forward ? forward : backward) +=
        std::to_string(slot.stage) + std::to_string(slot.micro_batch) + " ";
  BOOST_TEST(forward == "00 01 02 20 21 22 03 04 23 24 ");
  BOOST_TEST(backward == "20 21 22 00 01 02 23 24 03 04 ");
  BOOST_TEST(largest_stash(schedule.slots[0], 1) == 2 * (2 - 0 - 1) + (2 - 1) * 3 + 1);
}

BOOST_AUTO_TEST_CASE(zb_h1_with_the_memory_of_1f1b) {
  for_many([](std::uint32_t p, std::uint32_t m, const StageTimes& stage) {
    const Outcome o(Kind::zb_h1, p, m, 1, stage);
    const Time f = stage.forward, b = stage.backward_inputs, w = stage.backward_weights;
    BOOST_TEST(o.keeps_the_closed_form());
    if (m < p) return;
    BOOST_TEST((o.run.longest_window() == o.form()));
    if (w <= b) BOOST_TEST((o.run.makespan == o.form()));
    if (w <= b && w <= f) BOOST_TEST((o.form() == stage.all() * m + (f + b - w) * (p - 1)));
  });
}

BOOST_AUTO_TEST_CASE(zb_h2_fills_its_longest_rank) {
  for_many([](std::uint32_t p, std::uint32_t m, const StageTimes& stage) {
    const Outcome o(Kind::zb_h2, p, m, 1, stage);
    const Time f = stage.forward, b = stage.backward_inputs, w = stage.backward_weights;
    BOOST_TEST(o.keeps_the_closed_form());
    if (m < 2 * p - 1) return;
    BOOST_TEST((o.run.longest_window() == o.form()));
    if (w <= f) BOOST_TEST((o.form() == stage.all() * m + since(f + b, w * 2) * (p - 1)));
  });
}

// With F = B = W, from 2p micro-batches on no rank is ever idle between its first and last slot, with the memory of 1f1b.
BOOST_AUTO_TEST_CASE(zbv_has_no_bubble_if_slots_are_equal) {
  for (std::uint32_t p : {1, 2, 3, 4, 8, 16}) {
    for (std::uint32_t m : {2 * p, 3 * p + 1, 8 * p}) {
      const Outcome o(Kind::zbv, p, m, 2, stage_of(1, 1, 1));
      for (const RankTimes& rank : o.run.ranks) {
        BOOST_TEST((rank.window() == rank.busy));
        BOOST_TEST(rank.stash <= 2 * p);
      }
      BOOST_TEST(ideal_bubble_fraction(o.spec, o.stage) == 0);
    }
  }
}

// deepseek-ai/DualPipe has a bubble of (p - 1)(FB + B - 3W) for 2p equal stages, with B both parts and each pair of slots as
// one, FB. Slots one after the other, FB = F + B, wait less: the F of a pair sends its output before the B runs.
BOOST_AUTO_TEST_CASE(dualpipe_v_waits_less_than_its_pairs) {
  for (std::uint32_t p : {1, 2, 3, 4, 8}) {
    for (std::uint32_t m : {2 * p, 2 * p + 1, 5 * p, 8 * p + 3}) {
      for (const StageTimes& stage : costs()) {
        const Outcome o(Kind::dualpipe_v, p, m, 2, stage);
        BOOST_TEST(o.keeps_the_closed_form());
        for (const RankTimes& rank : o.run.ranks) BOOST_TEST((rank.busy == stage.all() * (2 * m)));
        const Time f = stage.forward, w = stage.backward_weights, b = stage.backward_inputs + w;
        if (f != stage.backward_inputs || w > f) continue;
        BOOST_TEST((o.run.longest_window() <= stage.all() * (2 * m) + since(f + b + b, w * 3) * (p - 1)));
        BOOST_TEST((o.run.longest_window() > stage.all() * (2 * m) || p == 1));
      }
    }
  }
}

// The whole pipeline of dualpipe: a micro-batch of a half goes through the first stages there and through the others on the
// other half. It takes the time of one half as dualpipe_v, and each rank waits as long as the rank of this half.
BOOST_AUTO_TEST_CASE(both_halves_of_dualpipe_are_like_dualpipe_v) {
  for (std::uint32_t p : {1, 2, 3, 4}) {
    for (std::uint32_t m : {2 * p, 2 * p + 1, 5 * p}) {
      for (const StageTimes& stage : costs()) {
        const Outcome half(Kind::dualpipe_v, p, m, 2, stage);
        const Schedule& both = Outcome(Kind::dualpipe, p, m, 2, stage).schedule;
        BOOST_TEST(both.both_ends);
        const ResultNumbers number(both);
        // Of the micro-batches that enter in each half.
        std::vector<std::optional<Time>> ends[2]{std::vector<std::optional<Time>>(number.size()),
                                                 std::vector<std::optional<Time>>(number.size())};
        std::vector<Time> free(2 * p);
        std::vector<std::size_t> next(2 * p);
        const auto enters_in = [&](const Slot& slot, std::uint32_t here) { return slot.stage < p ? here : 1 - here; };
        for (bool any = true; std::exchange(any, false);)
          for (std::uint32_t rank = 0; rank < 2 * p; ++rank) {
            const std::uint32_t here = rank < p ? 0 : 1, r = here == 0 ? rank : 2 * p - 1 - rank;
            while (next[rank] < both.slots[r].size()) {
              const Slot& slot = both.slots[r][next[rank]];
              std::vector<std::optional<Time>>& of_these = ends[enters_in(slot, here)];
              Time start = free[rank];
              bool arrived = true;
              for (const Slot& need : Needs(slot, both.stages())) {
                const std::optional<Time>& end = of_these[number(need)];
                arrived = arrived && end;
                if (end) start = later(start, *end);
              }
              if (!arrived) break;
              free[rank] = start + stage.of(slot.kind);
              of_these[number(slot)] = free[rank];
              ++next[rank];
              any = true;
            }
          }
        for (std::uint32_t rank = 0; rank < 2 * p; ++rank) {
          const std::uint32_t r = std::min(rank, 2 * p - 1 - rank);
          BOOST_TEST(next[rank] == both.slots[r].size());
          BOOST_TEST((free[rank] == half.run.slots[r].back().end));
        }
      }
    }
  }
}

/// Idle time of the rank that waits longest, if each pair of slots runs as one in `pair`. None: a deadlock.
std::optional<Time> idle_with_pairs(const Outcome& o, Time pair) {
  const std::uint32_t p = o.spec.ranks;
  const ResultNumbers number(o.schedule);
  std::vector<std::optional<Time>> ends(number.size());
  std::vector<Time> free(p), busy(p);
  std::vector<std::size_t> next(p);
  for (bool any = true; std::exchange(any, false);)
    for (std::uint32_t r = 0; r < p; ++r) {
      const std::vector<Slot>& slots = o.schedule.slots[r];
      while (next[r] < slots.size()) {
        const std::size_t at = next[r];
        const bool pairs = at + 1 < slots.size() && overlap_in_pairs(o.spec, r, slots[at], slots[at + 1]);
        const std::size_t until = at + (pairs ? 2 : 1);
        Time start = free[r];
        bool arrived = true;
        for (std::size_t i = at; i < until; ++i)
          for (const Slot& need : Needs(slots[i], o.schedule.stages())) {
            const std::optional<Time> end = ends[number(need)];
            arrived = arrived && end;
            if (end) start = later(start, *end);
          }
        if (!arrived) break;
        const Time duration = pairs ? pair : o.stage.of(slots[at].kind);
        for (std::size_t i = at; i < until; ++i) ends[number(slots[i])] = start + duration;
        busy[r] += duration;
        free[r] = start + duration;
        next[r] = until;
        any = true;
      }
    }
  Time end, longest;
  for (std::uint32_t r = 0; r < p; ++r) {
    if (next[r] < o.schedule.slots[r].size()) return {};
    end = later(end, free[r]);
  }
  for (std::uint32_t r = 0; r < p; ++r) longest = later(longest, end - busy[r]);
  return longest;
}

// The bubble of deepseek-ai/DualPipe, which counts 2p stages: (p - 1)(FB + B - 3W), B both parts, FB a pair.
BOOST_AUTO_TEST_CASE(dualpipe_v_has_the_published_bubble) {
  for (std::uint32_t p : {1, 2, 3, 4, 8}) {
    for (std::uint32_t m : {2 * p, 2 * p + 1, 5 * p}) {
      for (const std::uint64_t weights : {0, 3, 7, 10}) {
        for (const std::uint64_t hidden : {0, 2, 5}) {
          for (const Kind kind : {Kind::dualpipe_v, Kind::dualpipe}) {  // dualpipe: p is half of its ranks
            const Outcome o(kind, p, m, 2, stage_of(10, 10, weights));
            const Time w = Time::ns(weights), pair = Time::ns(20 + weights - hidden);
            BOOST_TEST((idle_with_pairs(o, pair) == since(pair + Time::ns(10) + w, w * 3) * (p - 1)));
          }
        }
      }
    }
  }
}

// Each rank of 1f1b is two pairs ahead of the next, so that no pair waits for the pair before by way of the next rank: beside
// (p - 1) of F and of B there is no idle time.
BOOST_AUTO_TEST_CASE(pairs_of_1f1b_can_run) {
  for_many([](std::uint32_t p, std::uint32_t m, const StageTimes& stage) {
    Outcome o(Kind::one_f_one_b, p, m, 1, stage);
    o.spec.overlap_pairs = true;
    o.schedule = make_schedule(o.spec);
    o.run = run_schedule(o.schedule, std::vector<StageTimes>(p, stage));
    const std::optional<Time> idle = idle_with_pairs(o, stage.all());
    BOOST_TEST(idle.has_value());
    if (m >= 2 * p) BOOST_TEST((*idle == stage.all() * (p - 1)));
    for (std::uint32_t r = 0; r < p; ++r) {
      BOOST_TEST(o.run.ranks[r].stash == closed_form_stash(o.spec, r).value());
      const std::vector<Slot>& slots = o.schedule.slots[r];
      std::uint32_t pairs = 0;
      for (std::size_t i = 0; i + 1 < slots.size(); ++i) pairs += overlap_in_pairs(o.spec, r, slots[i], slots[i + 1]);
      BOOST_TEST(pairs == (m >= 2 * (p - r) ? m - 2 * (p - r) + 1 : 0));
    }
  });
}

// With one more F first, each rank is two pairs ahead of the next, also where a micro-batch comes back to the first rank.
BOOST_AUTO_TEST_CASE(pairs_of_interleaved_can_run) {
  for_many([](std::uint32_t p, std::uint32_t m, const StageTimes& stage) {
    for (const std::uint32_t v : {2, 3}) {
      for (const std::uint32_t g : {p, p + 1, 2 * p}) {
        Outcome o(Kind::one_f_one_b, p, m, 1, stage);
        o.spec.kind = Kind::interleaved;
        o.spec.virtual_stages = v;
        o.spec.group_micro_batches = g;
        o.spec.overlap_pairs = true;
        if (illegal_value(o.spec)) continue;
        o.schedule = make_schedule(o.spec);
        o.run = run_schedule(o.schedule, std::vector<StageTimes>(p * v, stage));
        const std::optional<Time> idle = idle_with_pairs(o, stage.all());
        BOOST_TEST(idle.has_value());
        if (g == p && idle) BOOST_TEST((*idle == stage.all() * (p - 1)));
        for (std::uint32_t r = 0; r < p; ++r) {
          BOOST_TEST(o.run.ranks[r].stash == closed_form_stash(o.spec, r).value());
          const std::vector<Slot>& slots = o.schedule.slots[r];
          const std::uint32_t ahead = 2 * (p - r - 1) + (v - 1) * g + 1;
          std::uint32_t pairs = 0;
          for (std::size_t i = 0; i + 1 < slots.size(); ++i)
            pairs += overlap_in_pairs(o.spec, r, slots[i], slots[i + 1]);
          BOOST_TEST(pairs == (m * v > ahead ? m * v - ahead : 0));
        }
      }
    }
  });
}

// Schedules without a closed form, such as zbv, have the ideal step of equal stages without transfers.
BOOST_AUTO_TEST_CASE(ideal_bubbles) {
  const auto bubble = [](Kind kind, std::uint32_t v, const StageTimes& stage) {
    return ideal_bubble_fraction(Outcome(kind, 4, 16, v, stage).spec, stage);
  };
  const StageTimes stage = stage_of(10, 12, 7);
  BOOST_TEST(bubble(Kind::naive, 1, stage) == 0.75);
  BOOST_TEST(bubble(Kind::one_f_one_b, 1, stage) == 3 / 19.0, boost::test_tools::tolerance(1e-12));
  BOOST_TEST(bubble(Kind::interleaved, 2, stage) == 3 / 35.0, boost::test_tools::tolerance(1e-12));
  BOOST_TEST(bubble(Kind::zb_h1, 1, stage) == 45 / (16 * 29 + 45.0), boost::test_tools::tolerance(1e-12));
  BOOST_TEST(bubble(Kind::zb_h2, 1, stage) == 24 / (16 * 29 + 24.0), boost::test_tools::tolerance(1e-12));

  StageTimes far = stage;
  far.forward_transfer = far.backward_transfer = Time::ns(5);
  BOOST_TEST(bubble(Kind::zbv, 2, far) == bubble(Kind::zbv, 2, stage));
  const Outcome zbv(Kind::zbv, 4, 16, 2, stage);
  BOOST_TEST((ideal_step(zbv.spec, stage) == zbv.run.longest_window()));
}

// A micro-batch crosses every boundary twice.
BOOST_AUTO_TEST_CASE(transfers_count_between_ranks_only) {
  StageTimes stage = stage_of(10, 12, 7);
  stage.forward_transfer = Time::ns(3);
  stage.backward_transfer = Time::ns(4);
  BOOST_TEST((Outcome(Kind::naive, 4, 2, 1, stage).run.makespan == (stage.all() * 4 + Time::ns(3 * 7)) * 2));
  BOOST_TEST((Outcome(Kind::interleaved, 1, 2, 3, stage).run.makespan == stage.all() * 6));
  // Of the 7 boundaries of a V on 4 ranks, the one in the middle is inside of a rank. All W but the last are hidden.
  BOOST_TEST((Outcome(Kind::zbv, 4, 1, 2, stage).run.makespan ==
              (stage.forward + stage.backward_inputs) * 8 + Time::ns(7 * 6) + stage.backward_weights * 2));
}

// The order with the shortest ranks would end after 901 ns, because its last rank runs late.
BOOST_AUTO_TEST_CASE(zb_auto_does_not_end_later_than_1f1b) {
  const auto ns = [](std::uint64_t value) { return Time::ns(value); };
  ScheduleSpec spec;
  spec.ranks = 2;
  spec.micro_batches = 4;
  spec.memory_limit_stages = 2;
  spec.kept_for_weights = 0.3;
  spec.times = {{ns(173), ns(8), ns(0), ns(0), ns(65)}, {ns(4), ns(9), ns(47), ns(0), ns(61)}};
  const Time slowest = run_schedule(make_schedule(spec), spec.times).makespan;
  BOOST_TEST((slowest == ns(837)));
  spec.kind = Kind::zb_auto;
  BOOST_TEST((run_schedule(make_schedule(spec), spec.times).makespan <= slowest));
}

// The bubble rates that Zero Bubble (arXiv 2401.10241) prints in table 5 for 1f1b, interleaved and ZB-2p, from the times
// of F, B, W and transfers in its appendix. W keeps 32h of the 34h + 5as bytes of a token, as in its code. Interleaved
// slots have one layer, counting the embedding and the head as one each; how the paper counts their transfers is not said.
BOOST_AUTO_TEST_CASE(bubble_rates_of_zero_bubble) {
  struct Row {
    std::uint32_t p, m, layers;
    double hidden, heads;
    double forward_ms, inputs_ms, weights_ms, transfer_ms;
    double bubble_1f1b, bubble_interleaved, bubble_zb_2p;
  };
  for (const Row& row :
       std::vector<Row>{{8, 24, 22, 2304, 24, 18.522, 18.086, 9.337, 0.601, 0.2431, 0.1055, 0.0433},
                        {8, 32, 22, 2304, 24, 18.513, 18.086, 9.331, 0.626, 0.1985, 0.0818, 0.0039},
                        {8, 64, 22, 2304, 24, 18.546, 18.097, 9.321, 0.762, 0.1240, 0.0443, 0.0026},
                        {8, 24, 30, 4096, 32, 29.718, 29.444, 19.927, 0.527, 0.2347, 0.0808, 0.0029},
                        {8, 32, 30, 4096, 32, 29.802, 29.428, 19.530, 0.577, 0.1898, 0.0628, 0.0022},
                        {8, 64, 30, 4096, 32, 29.935, 29.621, 19.388, 0.535, 0.1091, 0.0320, 0.0010},
                        {16, 48, 46, 5120, 40, 11.347, 11.248, 8.132, 0.377, 0.2552, 0.1104, 0.0066}}) {
    ScheduleSpec spec;
    spec.ranks = row.p;
    spec.micro_batches = row.m;
    spec.memory_limit_stages = 2;
    spec.kept_for_weights = 32 * row.hidden / (34 * row.hidden + 5 * row.heads * 1024);
    const auto bubble = [&](Kind kind, std::uint32_t virtual_stages = 1) {
      const auto slot = [&](double ms) { return Time::seconds(ms * 1e-3 / virtual_stages); };
      const Time transfer = Time::seconds(row.transfer_ms * 1e-3);
      spec.kind = kind;
      spec.virtual_stages = virtual_stages;
      return planned_bubble_fraction(
          spec, {slot(row.forward_ms), slot(row.inputs_ms), slot(row.weights_ms), transfer, transfer});
    };
    BOOST_TEST_CONTEXT("p " << row.p << ", m " << row.m << ", h " << row.hidden) {
      BOOST_TEST(std::abs(bubble(Kind::one_f_one_b) - row.bubble_1f1b) < 0.0001);
      BOOST_TEST(std::abs(bubble(Kind::zb_auto) - row.bubble_zb_2p) < 0.002);
      BOOST_TEST(std::abs(bubble(Kind::interleaved, (row.layers + 2) / row.p) - row.bubble_interleaved) < 0.004);
    }
  }
}

BOOST_AUTO_TEST_CASE(illegal_choices) {
  const auto key = [](Kind kind, std::uint32_t p, std::uint32_t m, std::uint32_t v, std::uint32_t g = 0) {
    ScheduleSpec spec;
    spec.kind = kind;
    spec.ranks = p;
    spec.micro_batches = m;
    spec.virtual_stages = v;
    spec.group_micro_batches = g;
    const auto illegal = illegal_value(spec);
    return illegal ? illegal->key : "";
  };
  for (const Kind kind : {Kind::naive, Kind::gpipe, Kind::one_f_one_b, Kind::zb_h1, Kind::zb_h2, Kind::zb_auto}) {
    BOOST_TEST(key(kind, 4, 3, 1) == "");
    BOOST_TEST(key(kind, 4, 16, 2) == "virtual_stages");
    BOOST_TEST(key(kind, 4, 16, 1, 4) == "group_micro_batches");
  }
  BOOST_TEST(key(Kind::zbv, 4, 3, 2) == "");
  BOOST_TEST(key(Kind::zbv, 4, 16, 1) == "virtual_stages");
  BOOST_TEST(key(Kind::zbv, 4, 16, 3) == "virtual_stages");
  BOOST_TEST(key(Kind::dualpipe_v, 4, 8, 2) == "");
  BOOST_TEST(key(Kind::dualpipe_v, 4, 7, 2) == "micro_batches");
  BOOST_TEST(key(Kind::dualpipe_v, 4, 16, 1) == "virtual_stages");
  BOOST_TEST(key(Kind::dualpipe, 4, 8, 2) == "");
  BOOST_TEST(key(Kind::dualpipe, 4, 7, 2) == "micro_batches");
  BOOST_TEST(key(Kind::interleaved, 4, 16, 1) == "virtual_stages");
  BOOST_TEST(key(Kind::interleaved, 4, 16, 3) == "");
  BOOST_TEST(key(Kind::interleaved, 4, 18, 2) == "micro_batches");  // the last group has 2
  BOOST_TEST(key(Kind::interleaved, 4, 3, 2) == "micro_batches");
  BOOST_TEST(key(Kind::interleaved, 4, 16, 2, 3) == "group_micro_batches");
  BOOST_TEST(key(Kind::interleaved, 4, 21, 2, 8) == "");  // the last group has 5
  BOOST_TEST(key(Kind::interleaved, 4, 19, 2, 8) == "micro_batches");
}
