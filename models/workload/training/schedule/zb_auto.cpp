// zb_auto tries fixed and greedy orders, and takes the one whose longest rank is the shortest.
#include <algorithm>

#include "workload/training/schedule/generators.h"
#include "workload/training/schedule/greedy.h"
#include "workload/training/schedule/split_backward.h"

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

Schedule zb_auto_schedule(std::uint32_t m, double limit, double kept_for_weights,
                          const std::vector<StageTimes>& times) {
  constexpr double kRounding = 1e-9;  // 1.15 x 20 is 22.999...
  const auto p = static_cast<std::uint32_t>(times.size()), whole = static_cast<std::uint32_t>(limit + kRounding);

  Best best(times);
  std::vector<SplitBackward> ranks(p);
  for (std::uint32_t r = 0; r < p; ++r) ranks[r] = {p - r, 0};
  best.offer(split_backward_schedule(m, ranks));

  GreedyRule rule;
  rule.limit = limit + kRounding;
  rule.kept_for_weights = kept_for_weights;
  const auto try_greedy = [&] {
    for (const bool inputs_first : {true, false}) {
      for (const bool keeps_appointments : {true, false}) {
        rule.inputs_first = inputs_first;
        rule.keeps_appointments = keeps_appointments;
        best.offer(greedy_schedule(m, times, rule));
      }
    }
  };
  // From zb_h1, with p micro-batches kept on each rank, to zb_h2, with 2p - 1.
  constexpr std::uint32_t kSteps = 8;
  const std::uint32_t most = std::min(whole, 2 * p - 1), step = std::max((most - p) / kSteps, 1u);
  for (std::uint32_t less = 0; less <= most - p; less += step) {
    const std::uint32_t kept = most - less;
    rule.in_flight.clear();
    for (std::uint32_t r = 0; r < p; ++r) {
      const std::uint32_t in_flight = std::min(2 * (p - r) - 1, kept - r);
      ranks[r] = {in_flight, static_cast<std::uint32_t>(std::min<double>(m, (kept - in_flight) / kept_for_weights))};
      rule.in_flight.push_back(in_flight);
    }
    best.offer(split_backward_schedule(m, ranks));
    try_greedy();
  }
  // The limit alone, with and without the limit of zb_h2.
  for (std::uint32_t r = 0; r < p; ++r) rule.in_flight[r] = 2 * (p - r) - 1;
  try_greedy();
  rule.in_flight.assign(p, whole);
  try_greedy();
  return best.take();
}

}  // namespace railyard::workload::training
