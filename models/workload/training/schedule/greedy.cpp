#include "workload/training/schedule/greedy.h"

#include <functional>
#include <queue>
#include <utility>

#include "workload/training/schedule/builder.h"

namespace railyard::workload::training {

namespace {

class Greedy {
 public:
  Greedy(std::uint32_t m, const std::vector<StageTimes>& times, const GreedyRule& rule)
      : m_(m), times_(times), rule_(rule), builder_(ranks(), m), states_(times.size()) {
    for (State& state : states_) {
      state.forward_arrives.assign(m, Time::max());
      state.gradient_arrives.assign(m, Time::max());
    }
    states_[0].forward_arrives.assign(m, Time());
    wake(0, Time());
  }

  Schedule run() {
    while (!wakes_.empty()) {
      const auto [now, rank] = wakes_.top();
      wakes_.pop();
      if (now >= states_[rank].free) take_next(rank, now);
    }
    return builder_.take();
  }

 private:
  struct State {
    std::vector<Time> forward_arrives, gradient_arrives;  ///< by micro-batch; Time::max(): not known yet
    Time free;
    SlotKind last = SlotKind::backward_inputs;  ///< of F and I
  };

  std::uint32_t ranks() const { return static_cast<std::uint32_t>(times_.size()); }
  void wake(std::uint32_t rank, Time when) { wakes_.push({when, rank}); }

  /// Starts a slot if one can start now. Otherwise an arrival wakes the rank again.
  void take_next(std::uint32_t rank, Time now) {
    State& state = states_[rank];
    const std::uint32_t forward = builder_.added(SlotKind::forward, rank),
                        inputs = builder_.added(SlotKind::backward_inputs, rank),
                        weights = builder_.added(SlotKind::backward_weights, rank);
    const double stash = (forward - inputs) + rule_.kept_for_weights * (inputs - weights);
    const bool may_forward = forward < m_ && stash + 1 <= rule_.limit && forward - inputs < rule_.in_flight[rank];
    const Time forward_at = may_forward ? state.forward_arrives[forward] : Time::max(),
               inputs_at = inputs < forward ? state.gradient_arrives[inputs] : Time::max(),
               next_at = sooner(forward_at, inputs_at);
    if (next_at <= now) {
      const bool both = forward_at <= now && inputs_at <= now;
      const bool prefers_inputs = rule_.inputs_first || state.last == SlotKind::forward;
      start((both ? prefers_inputs : inputs_at <= now) ? SlotKind::backward_inputs : SlotKind::forward, rank, now);
    } else if (weights < inputs) {
      if (!rule_.keeps_appointments || now + times_[rank].backward_weights <= next_at)
        start(SlotKind::backward_weights, rank, now);
    }
  }

  void start(SlotKind kind, std::uint32_t rank, Time now) {
    State& state = states_[rank];
    const std::uint32_t micro_batch = builder_.added(kind, rank);
    const StageTimes& times = times_[rank];
    const Time end = now + times.of(kind);
    state.free = end;
    builder_.add(kind, rank);
    wake(rank, end);
    if (kind == SlotKind::backward_weights) return;
    state.last = kind;
    if (kind == SlotKind::forward && rank + 1 == ranks()) {
      state.gradient_arrives[micro_batch] = end;  // the loss
    } else if (kind == SlotKind::forward) {
      states_[rank + 1].forward_arrives[micro_batch] = end + times.forward_transfer;
      wake(rank + 1, end + times.forward_transfer);
    } else if (rank > 0) {
      states_[rank - 1].gradient_arrives[micro_batch] = end + times.backward_transfer;
      wake(rank - 1, end + times.backward_transfer);
    }
  }

  using Wake = std::pair<Time, std::uint32_t>;
  struct Later {
    bool operator()(const Wake& a, const Wake& b) const {
      return a.first != b.first ? a.first > b.first : a.second > b.second;
    }
  };

  std::uint32_t m_;
  const std::vector<StageTimes>& times_;
  const GreedyRule& rule_;
  ScheduleBuilder builder_;
  std::vector<State> states_;
  std::priority_queue<Wake, std::vector<Wake>, Later> wakes_;
};

}  // namespace

Schedule greedy_schedule(std::uint32_t m, const std::vector<StageTimes>& times, const GreedyRule& rule) {
  return Greedy(m, times, rule).run();
}

}  // namespace railyard::workload::training
