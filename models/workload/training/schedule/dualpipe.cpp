#include <deque>

#include "workload/training/schedule/builder.h"
#include "workload/training/schedule/generators.h"

namespace railyard::workload::training {

Schedule dualpipe_v_schedule(std::uint32_t p, std::uint32_t m) {
  std::vector<std::uint32_t> rank_of(2 * p);
  for (std::uint32_t stage = 0; stage < 2 * p; ++stage) rank_of[stage] = std::min(stage, 2 * p - 1 - stage);
  ScheduleBuilder builder(p, m, std::move(rank_of));
  for (std::uint32_t r = 0; r < p; ++r) {
    const std::uint32_t down = r, up = 2 * p - 1 - r, later = p - r - 1;  // ranks after this one
    std::deque<std::uint32_t> put_off;                                    // stages of W slots, the oldest first
    const auto forward = [&](std::uint32_t stage) { builder.add(SlotKind::forward, stage); };
    const auto backward = [&](std::uint32_t stage) { builder.add(SlotKind::backward, stage); };
    const auto inputs = [&](std::uint32_t stage) {
      builder.add(SlotKind::backward_inputs, stage);
      put_off.push_back(stage);
    };
    const auto weights = [&] {
      builder.add(SlotKind::backward_weights, put_off.front());
      put_off.pop_front();
    };
    // Warm-up: until the loss of the first micro-batch has come back to this rank.
    for (std::uint32_t i = 0; i < 2 * later; ++i) forward(down);
    for (std::uint32_t i = 0; i < r + 1; ++i) forward(down), forward(up);
    for (std::uint32_t i = 0; i < later; ++i) inputs(up), weights(), forward(up);
    // Steady state: pairs of F and B, of different virtual stages.
    for (std::uint32_t i = 0; i < m - 2 * p + r + 1; ++i) {
      forward(down), backward(up);
      forward(up), backward(down);
    }
    for (std::uint32_t i = 0; i < later; ++i) {
      backward(up);
      forward(up), backward(down);
    }
    // Flush: in its second half, first what other ranks wait for.
    for (std::uint32_t i = 0; i < 2 * (r + 1); ++i) {
      const std::uint32_t stage = i % 2 == 0 ? up : down;
      i < r + 1 ? backward(stage) : inputs(stage);
    }
    for (std::uint32_t i = 0; i < later; ++i) weights(), inputs(down);
    while (!put_off.empty()) weights();
  }
  return builder.take();
}

}  // namespace railyard::workload::training
