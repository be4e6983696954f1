#include "workload/training/schedule_slots.h"

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

std::string name_of(const Slot& slot) {
  return fmt::format("{} of virtual stage {}, micro-batch {}", letter_of(slot.kind), slot.stage, slot.micro_batch);
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
