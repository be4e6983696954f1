#include "workload/training/schedule/split_backward.h"

#include "workload/training/schedule/builder.h"
#include "workload/training/schedule/generators.h"

namespace railyard::workload::training {

Schedule split_backward_schedule(std::uint32_t m, const std::vector<SplitBackward>& ranks) {
  const auto p = static_cast<std::uint32_t>(ranks.size());
  ScheduleBuilder builder(p, m);
  for (std::uint32_t r = 0; r < p; ++r) {
    builder.add(SlotKind::forward, r, ranks[r].in_flight - 1);
    for (std::uint32_t i = 0; i < m; ++i) {
      builder.add(SlotKind::forward, r);
      builder.add(SlotKind::backward_inputs, r);
      if (i >= ranks[r].weights_later) builder.add(SlotKind::backward_weights, r);
    }
    builder.add(SlotKind::backward_weights, r, m);
  }
  return builder.take();
}

Schedule zb_h1_schedule(std::uint32_t p, std::uint32_t m) {
  std::vector<SplitBackward> ranks;
  for (std::uint32_t r = 0; r < p; ++r) ranks.push_back({p - r, r});
  return split_backward_schedule(m, ranks);
}

Schedule zb_h2_schedule(std::uint32_t p, std::uint32_t m) {
  std::vector<SplitBackward> ranks;
  for (std::uint32_t r = 0; r < p; ++r) ranks.push_back({2 * (p - r) - 1, 2 * r});
  return split_backward_schedule(m, ranks);
}

}  // namespace railyard::workload::training
