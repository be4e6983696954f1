#include <algorithm>

#include "workload/training/schedule/builder.h"
#include "workload/training/schedule/generators.h"

namespace railyard::workload::training {

Schedule zbv_schedule(std::uint32_t p, std::uint32_t m) {
  std::vector<std::uint32_t> rank_of(2 * p);
  for (std::uint32_t stage = 0; stage < 2 * p; ++stage) rank_of[stage] = std::min(stage, 2 * p - 1 - stage);
  // The order is regular from 2p - 1 micro-batches on. Of fewer, it is the same order without the slots that are missing.
  const std::uint32_t regular = std::max(2 * p - 1, m);
  ScheduleBuilder builder(p, regular, std::move(rank_of));
  for (std::uint32_t r = 0; r < p; ++r) {
    const std::uint32_t down = r, up = 2 * p - 1 - r;
    const auto forward = [&](std::uint32_t stage) { builder.add(SlotKind::forward, stage); };
    const auto inputs = [&](std::uint32_t stage) { builder.add(SlotKind::backward_inputs, stage); };
    const auto weights = [&](std::uint32_t stage) { builder.add(SlotKind::backward_weights, stage); };
    // Warm-up: until the loss of the first micro-batch has come back to this rank.
    for (std::uint32_t i = 0; i < 2 * (p - r) - 1; ++i) forward(down);
    for (std::uint32_t i = 0; i < r; ++i) forward(up), forward(down);
    for (std::uint32_t i = 0; i < p - r; ++i) forward(up), inputs(up), weights(up);
    // Steady state: both stages in turn.
    while (builder.added(SlotKind::forward, up) < regular) {
      forward(down), inputs(down), weights(down);
      forward(up), inputs(up), weights(up);
    }
    // Flush: first what other ranks wait for.
    for (std::uint32_t i = 0; i < r; ++i) inputs(down), inputs(up);
    for (std::uint32_t i = 0; i < p - r; ++i) inputs(down), weights(down);
    for (std::uint32_t i = 0; i < regular; ++i) weights(up);
    for (std::uint32_t i = 0; i < regular; ++i) weights(down);
  }
  Schedule schedule = builder.take();
  schedule.micro_batches = m;
  for (std::vector<Slot>& slots : schedule.slots)
    slots.erase(std::remove_if(slots.begin(), slots.end(), [&](const Slot& s) { return s.micro_batch >= m; }),
                slots.end());
  return schedule;
}

}  // namespace railyard::workload::training
