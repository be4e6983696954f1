// zb_auto tries fixed and greedy orders, and takes the one whose longest rank is the shortest.
#include <algorithm>
#include <cmath>

#include "workload/training/schedule_generators.h"
#include "workload/training/schedule_greedy.h"
#include "workload/training/schedule_split_backward.h"

namespace railyard::workload::training {

namespace {

/// Keeps the best order so far. The first one, 1f1b with its backward slot split, is never slower than 1f1b: its slots
/// have the same order, and gradients of inputs leave earlier.
class Best {
 public:
  explicit Best(const std::vector<StageTimes>& times) : times_(times) {}

  void offer(Schedule schedule) {
    const ScheduleTimes run = run_schedule(schedule, times_);
    const Time window = run.longest_window();
    if (best_.slots.empty()) {
      slowest_ = run.makespan;
    } else if (run.makespan > slowest_ || window > window_ || (window == window_ && run.makespan >= makespan_)) {
      return;
    }
    best_ = std::move(schedule);
    window_ = window;
    makespan_ = run.makespan;
  }
  Schedule take() { return std::move(best_); }

 private:
  const std::vector<StageTimes>& times_;
  Schedule best_;
  Time window_, makespan_;
  Time slowest_;  ///< longest makespan allowed
};

}  // namespace

Schedule zb_auto_schedule(std::uint32_t p, std::uint32_t m, double memory_limit_stages,
                          const std::vector<StageTimes>& times) {
  constexpr double kRounding = 1e-9;  // 1.15 x 20 is 22.999...
  const auto stash = static_cast<std::uint32_t>(std::floor(memory_limit_stages * p + kRounding));

  Best best(times);
  std::vector<SplitBackward> ranks(p);
  for (std::uint32_t r = 0; r < p; ++r) ranks[r] = {p - r, 0};
  best.offer(split_backward_schedule(m, ranks));
  // From zb_h1, which keeps p micro-batches, to zb_h2, which keeps 2p - 1.
  for (std::uint32_t kept = p; kept <= std::min(stash, 2 * p - 1); ++kept) {
    for (std::uint32_t r = 0; r < p; ++r) {
      const std::uint32_t in_flight = p == 1 ? 1 : 1 + (kept - 1) * (p - 1 - r) / (p - 1);
      ranks[r] = {in_flight, kept - in_flight};
    }
    best.offer(split_backward_schedule(m, ranks));
  }

  GreedyRule rule;
  rule.stash = stash;
  const auto try_greedy = [&](auto in_flight) {
    rule.in_flight.clear();
    for (std::uint32_t r = 0; r < p; ++r) rule.in_flight.push_back(in_flight(r));
    for (const bool inputs_first : {true, false}) {
      for (const bool keeps_appointments : {true, false}) {
        rule.inputs_first = inputs_first;
        rule.keeps_appointments = keeps_appointments;
        best.offer(greedy_schedule(m, times, rule));
      }
    }
  };
  try_greedy([&](std::uint32_t r) { return p - r; });            // as 1f1b and zb_h1
  try_greedy([&](std::uint32_t r) { return 2 * (p - r) - 1; });  // as zb_h2
  try_greedy([&](std::uint32_t) { return stash; });
  return best.take();
}

}  // namespace railyard::workload::training
