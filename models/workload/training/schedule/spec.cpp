#include "workload/training/schedule/spec.h"

#include <fmt/format.h>

#include "workload/training/schedule/generators.h"

namespace railyard::workload::training {

std::optional<IllegalValue> illegal_value(const ScheduleSpec& spec) {
  const std::uint32_t p = spec.ranks, m = spec.micro_batches, v = spec.virtual_stages;
  const bool interleaves = spec.kind == ScheduleKind::interleaved;
  if (interleaves && v < 2)
    return IllegalValue{"virtual_stages", "schedule interleaved needs at least 2 virtual stages on each rank"};
  if (is_v_shaped(spec.kind) && v != 2)
    return IllegalValue{"virtual_stages",
                        fmt::format("schedule {} has 2 virtual stages on each rank, not {}", name_of(spec.kind), v)};
  if (has_dualpipe_order(spec.kind) && m < 2 * p) {
    const std::uint32_t halves = spec.kind == ScheduleKind::dualpipe ? 2 : 1;
    return IllegalValue{"micro_batches",
                        fmt::format("{} micro-batches; schedule {} needs at least 2 x {} (pipeline ranks)", halves * m,
                                    name_of(spec.kind), halves * p)};
  }
  if (!interleaves && !is_v_shaped(spec.kind) && v != 1)
    return IllegalValue{"virtual_stages",
                        fmt::format("schedule {} has 1 virtual stage on each rank, not {}; schedules with more: "
                                    "interleaved (2 or more), zbv and dualpipe_v (2)",
                                    name_of(spec.kind), v)};
  if (!interleaves) {
    if (spec.group_micro_batches != 0)
      return IllegalValue{"group_micro_batches", "only schedule interleaved has groups of micro-batches"};
    return {};
  }
  if (spec.group() < p)
    return IllegalValue{
        "group_micro_batches",
        fmt::format("a group of {} micro-batches is smaller than the {} pipeline ranks", spec.group(), p)};
  if (const std::uint32_t last = m % spec.group(); last > 0 && last < p)
    return IllegalValue{
        "micro_batches",
        fmt::format("{} micro-batches in groups of {} leave a last group of {}, but schedule interleaved "
                    "needs at least {} (pipeline ranks) in each group",
                    m, spec.group(), last, p)};
  return {};
}

Schedule make_schedule(const ScheduleSpec& spec) {
  const std::uint32_t p = spec.ranks, m = spec.micro_batches;
  switch (spec.kind) {
    case ScheduleKind::naive: return naive_schedule(p, m);
    case ScheduleKind::gpipe: return gpipe_schedule(p, m);
    case ScheduleKind::one_f_one_b: return one_f_one_b_schedule(p, m, spec.overlap_pairs);
    case ScheduleKind::interleaved: return interleaved_schedule(spec);
    case ScheduleKind::zb_h1: return zb_h1_schedule(p, m);
    case ScheduleKind::zb_h2: return zb_h2_schedule(p, m);
    case ScheduleKind::zb_auto:
      return zb_auto_schedule(m, spec.memory_limit_stages * p, spec.kept_for_weights, spec.times);
    case ScheduleKind::zbv: return zbv_schedule(p, m);
    case ScheduleKind::dualpipe_v: return dualpipe_v_schedule(p, m);
    default: {
      Schedule schedule = dualpipe_v_schedule(p, m);
      schedule.both_ends = true;
      return schedule;
    }
  }
}

bool overlap_in_pairs(const ScheduleSpec& spec, std::uint32_t rank, const Slot& first, const Slot& second) {
  if (first.kind != SlotKind::forward || second.kind != SlotKind::backward) return false;
  if (has_dualpipe_order(spec.kind)) return first.stage != second.stage;
  if (spec.kind == ScheduleKind::interleaved) return interleaved_pair(spec, rank, first, second);
  // As in one_f_one_b_schedule(). Before, the F leads to a pair of the next rank that this B waits for.
  return first.micro_batch + 1 >= second.micro_batch + 2 * (spec.ranks - rank);
}

Schedule with_head_deferred(Schedule schedule) {
  const std::uint32_t last = schedule.stages() - 1;
  std::vector<Slot>& slots = schedule.slots[schedule.rank_of[last]];
  const std::vector<Slot> others = slots;
  for (const Slot& slot : others)
    if (slot.kind == SlotKind::backward && slot.stage == last)
      slots.push_back({SlotKind::backward_weights, last, slot.micro_batch});
  return schedule;
}

}  // namespace railyard::workload::training
