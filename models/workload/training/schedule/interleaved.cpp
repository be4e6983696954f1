#include <algorithm>

#include "workload/training/schedule/builder.h"
#include "workload/training/schedule/generators.h"
#include "workload/training/schedule/spec.h"

namespace railyard::workload::training {

namespace {

/// Forward slots of a rank before its first backward slot.
std::uint32_t ahead_of(const ScheduleSpec& spec, std::uint32_t rank) {
  return 2 * (spec.ranks - rank - 1) + (spec.virtual_stages - 1) * spec.group() + (spec.overlap_pairs ? 1 : 0);
}

/// The place of an F among the F of its rank, or of a B among the B.
std::uint32_t turn_of(const ScheduleSpec& spec, const Slot& slot) {
  const std::uint32_t chunk = slot.stage / spec.ranks, g = spec.group(), first = slot.micro_batch / g * g;
  const std::uint32_t place = slot.kind == SlotKind::forward ? chunk : spec.virtual_stages - 1 - chunk;
  return first * spec.virtual_stages + place * std::min(g, spec.micro_batches - first) + slot.micro_batch - first;
}

}  // namespace

bool interleaved_pair(const ScheduleSpec& spec, std::uint32_t rank, const Slot& forward, const Slot& backward) {
  return turn_of(spec, forward) == turn_of(spec, backward) + ahead_of(spec, rank);
}

Schedule interleaved_schedule(const ScheduleSpec& spec) {
  const std::uint32_t p = spec.ranks, m = spec.micro_batches, v = spec.virtual_stages, g = spec.group();
  // Of each rank, which of its virtual stages runs next: g micro-batches in the first, the same ones in the second, ...
  std::vector<std::uint32_t> turns;
  for (std::uint32_t first = 0; first < m; first += g)
    for (std::uint32_t chunk = 0; chunk < v; ++chunk) turns.insert(turns.end(), std::min(g, m - first), chunk);

  std::vector<std::uint32_t> rank_of(p * v);
  for (std::uint32_t stage = 0; stage < p * v; ++stage) rank_of[stage] = stage % p;
  ScheduleBuilder builder(p, m, std::move(rank_of));
  for (std::uint32_t r = 0; r < p; ++r) {
    const std::size_t ahead = ahead_of(spec, r);
    for (std::size_t i = 0; i < turns.size() + ahead; ++i) {
      if (i < turns.size()) builder.add(SlotKind::forward, turns[i] * p + r);
      if (i >= ahead) builder.add(SlotKind::backward, (v - 1 - turns[i - ahead]) * p + r);
    }
  }
  return builder.take();
}

}  // namespace railyard::workload::training
