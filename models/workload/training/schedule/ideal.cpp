#include "workload/training/schedule/ideal.h"

#include <algorithm>

namespace railyard::workload::training {

namespace {

Time step_of_equal_stages(const ScheduleSpec& spec, const StageTimes& stage) {
  ScheduleSpec equal_stages = spec;
  equal_stages.times.assign(std::size_t{spec.ranks} * spec.virtual_stages, stage);
  return run_schedule(make_schedule(equal_stages), equal_stages.times).longest_window();
}

double bubble_fraction(const ScheduleSpec& spec, const StageTimes& stage, Time step) {
  const Time busy = stage.all() * spec.micro_batches * spec.virtual_stages;
  return 1 - busy.seconds() / step.seconds();
}

}  // namespace

std::optional<Time> closed_form_step(const ScheduleSpec& spec, const StageTimes& stage) {
  const std::uint64_t p = spec.ranks, m = spec.micro_batches, v = spec.virtual_stages;
  const Time forward = stage.forward, inputs = stage.backward_inputs, weights = stage.backward_weights;
  switch (spec.kind) {
    case ScheduleKind::naive: return stage.all() * (m * p);
    case ScheduleKind::one_f_one_b:
      if (spec.overlap_pairs) return {};
      [[fallthrough]];
    case ScheduleKind::gpipe: return stage.all() * (m + p - 1);
    case ScheduleKind::interleaved:
      if (m % p != 0 || spec.group() != p || spec.overlap_pairs) return {};
      return stage.all() * (m * v + p - 1);
    case ScheduleKind::zb_h1:
      if (m < p) return {};
      return stage.all() * m + (inputs + since(forward, weights)) * (p - 1);
    case ScheduleKind::zb_h2:
      if (m < 2 * p - 1) return {};
      return stage.all() * m + since(inputs + since(forward, weights) * 2, forward) * (p - 1);
    default: return {};
  }
}

Time ideal_step(const ScheduleSpec& spec, const StageTimes& stage) {
  if (const std::optional<Time> step = closed_form_step(spec, stage)) return *step;
  StageTimes without_transfers = stage;
  without_transfers.forward_transfer = without_transfers.backward_transfer = Time();
  return step_of_equal_stages(spec, without_transfers);
}

double ideal_bubble_fraction(const ScheduleSpec& spec, const StageTimes& stage) {
  return bubble_fraction(spec, stage, ideal_step(spec, stage));
}

double planned_bubble_fraction(const ScheduleSpec& spec, const StageTimes& stage) {
  return bubble_fraction(spec, stage, step_of_equal_stages(spec, stage));
}

std::optional<std::uint32_t> closed_form_stash(const ScheduleSpec& spec, std::uint32_t rank) {
  const std::uint32_t p = spec.ranks, m = spec.micro_batches, v = spec.virtual_stages;
  switch (spec.kind) {
    case ScheduleKind::naive: return 1;
    case ScheduleKind::gpipe: return m;
    case ScheduleKind::one_f_one_b: return std::min(m, (p - rank) * (spec.overlap_pairs ? 2 : 1));
    case ScheduleKind::interleaved: {
      const std::uint32_t ahead = 2 * (p - rank - 1) + (v - 1) * spec.group() + (spec.overlap_pairs ? 1 : 0);
      return std::min(m * v, ahead + 1);
    }
    case ScheduleKind::zb_h1: return std::min(m, p);
    case ScheduleKind::zb_h2: return std::min(m, 2 * p - 1);
    case ScheduleKind::dualpipe_v:
    case ScheduleKind::dualpipe: return 2 * p + 1;
    default: return {};
  }
}

}  // namespace railyard::workload::training
