// Schedules whose backward slots are whole, with one virtual stage on each rank.
#include <algorithm>

#include "workload/training/schedule/builder.h"
#include "workload/training/schedule/generators.h"

namespace railyard::workload::training {

namespace {

/// Forward slots of rank r until there are `ahead(r)` more of them than backward slots, then one backward and one
/// forward slot in turn.
template <class Ahead>
Schedule in_turn(std::uint32_t p, std::uint32_t m, Ahead ahead) {
  ScheduleBuilder builder(p, m);
  for (std::uint32_t r = 0; r < p; ++r) {
    builder.add(SlotKind::forward, r, ahead(r));
    for (std::uint32_t i = 0; i < m; ++i) {
      builder.add(SlotKind::backward, r);
      builder.add(SlotKind::forward, r);
    }
  }
  return builder.take();
}

}  // namespace

Schedule naive_schedule(std::uint32_t p, std::uint32_t m) {
  return in_turn(p, m, [](std::uint32_t) { return 1u; });
}

Schedule gpipe_schedule(std::uint32_t p, std::uint32_t m) {
  return in_turn(p, m, [&](std::uint32_t) { return m; });
}

Schedule one_f_one_b_schedule(std::uint32_t p, std::uint32_t m, bool pairs) {
  return in_turn(p, m, [&](std::uint32_t r) { return pairs ? 2 * (p - r) : p - r; });
}

}  // namespace railyard::workload::training
