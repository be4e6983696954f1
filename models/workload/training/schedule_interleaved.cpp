#include <algorithm>

#include "workload/training/schedule_builder.h"
#include "workload/training/schedule_generators.h"

namespace railyard::workload::training {

Schedule interleaved_schedule(std::uint32_t p, std::uint32_t m, std::uint32_t v, std::uint32_t g) {
  // Of each rank, which of its virtual stages runs next: g micro-batches in the first, the same ones in the second, ...
  std::vector<std::uint32_t> turns;
  for (std::uint32_t first = 0; first < m; first += g)
    for (std::uint32_t chunk = 0; chunk < v; ++chunk) turns.insert(turns.end(), std::min(g, m - first), chunk);

  std::vector<std::uint32_t> rank_of(p * v);
  for (std::uint32_t stage = 0; stage < p * v; ++stage) rank_of[stage] = stage % p;
  ScheduleBuilder builder(p, m, std::move(rank_of));
  for (std::uint32_t r = 0; r < p; ++r) {
    const std::size_t ahead = std::size_t{2} * (p - r - 1) + std::size_t{v - 1} * g;
    for (std::size_t i = 0; i < turns.size() + ahead; ++i) {
      if (i < turns.size()) builder.add(SlotKind::forward, turns[i] * p + r);
      if (i >= ahead) builder.add(SlotKind::backward, (v - 1 - turns[i - ahead]) * p + r);
    }
  }
  return builder.take();
}

}  // namespace railyard::workload::training
