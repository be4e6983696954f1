#include "workload/training/schedule/times.h"

#include <algorithm>

#include "workload/training/schedule/slots.h"

namespace railyard::workload::training {

Time StageTimes::of(SlotKind kind) const {
  switch (kind) {
    case SlotKind::forward: return forward;
    case SlotKind::backward: return backward_inputs + backward_weights;
    case SlotKind::backward_inputs: return backward_inputs;
    default: return backward_weights;
  }
}

Time ScheduleTimes::longest_window() const {
  Time longest;
  for (const RankTimes& rank : ranks) longest = later(longest, rank.window());
  return longest;
}

namespace {

class Run {
 public:
  Run(const Schedule& schedule, const std::vector<StageTimes>& stages)
      : schedule_(schedule), stages_(stages), number_(schedule), ends_(number_.size(), Time::max()) {
    times_.slots.resize(schedule.ranks());
    times_.ranks.resize(schedule.ranks());
  }

  ScheduleTimes run() {
    for (bool any = true; any;) {
      any = false;
      for (std::uint32_t rank = 0; rank < schedule_.ranks(); ++rank)
        while (take_next(rank)) any = true;
    }
    for (std::uint32_t r = 0; r < schedule_.ranks(); ++r) {
      RankTimes& rank = times_.ranks[r];
      if (!times_.slots[r].empty()) rank.first_start = times_.slots[r].front().start;
      rank.stash = static_cast<std::uint32_t>(largest_stash(schedule_.slots[r], 1));
      times_.makespan = later(times_.makespan, rank.last_end);
    }
    return std::move(times_);
  }

 private:
  /// Runs the next slot of a rank if all that it needs has an end.
  bool take_next(std::uint32_t r) {
    const std::size_t at = times_.slots[r].size();
    if (at == schedule_.slots[r].size()) return false;
    const Slot& slot = schedule_.slots[r][at];
    RankTimes& rank = times_.ranks[r];
    Time start = rank.last_end;
    for (const Slot& need : Needs(slot, schedule_.stages())) {
      if (ends_[number_(need)] == Time::max()) return false;
      start = later(start, ends_[number_(need)] + transfer(need, slot));
    }
    const Time duration = stages_[slot.stage].of(slot.kind);
    times_.slots[r].push_back({start, start + duration});
    rank.last_end = ends_[number_(slot)] = start + duration;
    rank.busy += duration;
    return true;
  }
  Time transfer(const Slot& from, const Slot& to) const {
    if (schedule_.rank_of[from.stage] == schedule_.rank_of[to.stage]) return {};
    const StageTimes& stage = stages_[from.stage];
    return from.stage < to.stage ? stage.forward_transfer : stage.backward_transfer;
  }

  const Schedule& schedule_;
  const std::vector<StageTimes>& stages_;
  ResultNumbers number_;
  std::vector<Time> ends_;  ///< by result
  ScheduleTimes times_;
};

}  // namespace

ScheduleTimes run_schedule(const Schedule& schedule, const std::vector<StageTimes>& stages) {
  return Run(schedule, stages).run();
}

double largest_stash(const std::vector<Slot>& slots, double kept_for_weights) {
  double stash = 0, largest = 0;
  for (const Slot& slot : slots) {
    switch (slot.kind) {
      case SlotKind::forward: stash += 1; break;
      case SlotKind::backward: stash -= 1; break;
      case SlotKind::backward_inputs: stash -= 1 - kept_for_weights; break;
      default: stash -= kept_for_weights;
    }
    largest = std::max(largest, stash);
  }
  return largest;
}

}  // namespace railyard::workload::training
