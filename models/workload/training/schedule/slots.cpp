#include "workload/training/schedule/slots.h"

#include <fmt/format.h>

namespace railyard::workload::training {

char letter_of(SlotKind kind) {
  switch (kind) {
    case SlotKind::forward: return 'F';
    case SlotKind::backward: return 'B';
    case SlotKind::backward_inputs: return 'I';
    default: return 'W';
  }
}

const char* name_of(SlotKind kind) {
  static constexpr std::array<const char*, 4> kNames{"forward", "backward", "backward_inputs", "backward_weights"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::string name_of(const Slot& slot) {
  return fmt::format("{} of virtual stage {}, micro-batch {}", letter_of(slot.kind), slot.stage, slot.micro_batch);
}

namespace {

/// The stage, if it is on another rank than the slot; with both_ends: perhaps on its partner.
std::uint32_t elsewhere(std::uint32_t stage, const Slot& slot, const Schedule& schedule) {
  if (schedule.both_ends) return stage;
  return schedule.rank_of[stage] == schedule.rank_of[slot.stage] ? kNoStage : stage;
}

}  // namespace

std::uint32_t source_of(const Slot& slot, const Schedule& schedule) {
  if (slot.kind == SlotKind::forward && slot.stage > 0) return elsewhere(slot.stage - 1, slot, schedule);
  if (gives_input_gradients(slot) && slot.stage + 1 < schedule.stages())
    return elsewhere(slot.stage + 1, slot, schedule);
  return kNoStage;
}

std::uint32_t destination_of(const Slot& slot, const Schedule& schedule) {
  if (slot.kind == SlotKind::forward && slot.stage + 1 < schedule.stages())
    return elsewhere(slot.stage + 1, slot, schedule);
  if (gives_input_gradients(slot) && slot.stage > 0) return elsewhere(slot.stage - 1, slot, schedule);
  return kNoStage;
}

Needs::Needs(const Slot& slot, std::uint32_t stages) {
  switch (slot.kind) {
    case SlotKind::forward:
      if (slot.stage > 0) add(SlotKind::forward, slot.stage - 1, slot.micro_batch);
      break;
    case SlotKind::backward_weights: add(SlotKind::backward_inputs, slot.stage, slot.micro_batch); break;
    default:
      add(SlotKind::forward, slot.stage, slot.micro_batch);
      if (slot.stage + 1 < stages) add(SlotKind::backward_inputs, slot.stage + 1, slot.micro_batch);
  }
}

}  // namespace railyard::workload::training
