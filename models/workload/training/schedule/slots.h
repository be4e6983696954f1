// What a slot of a pipeline schedule needs before it can start, and a number for what it computes.
#pragma once

#include <array>
#include <cstddef>
#include <string>

#include "workload/training/schedule/schedule.h"

namespace railyard::workload::training {

/// F, B, I (backward of inputs) or W (backward of weights), as in tables, messages and charts.
char letter_of(SlotKind kind);

/// forward, backward, backward_inputs or backward_weights, as in outputs.
const char* name_of(SlotKind kind);

/// "B of virtual stage 3, micro-batch 5"
std::string name_of(const Slot& slot);

/// Whether the slot computes gradients of inputs: B or I.
inline bool gives_input_gradients(const Slot& slot) {
  return slot.kind == SlotKind::backward || slot.kind == SlotKind::backward_inputs;
}

// The virtual stage, on another rank, that gives a slot its input, or that takes its output. kNoStage: none, or on the
// same rank.
constexpr std::uint32_t kNoStage = ~0u;
std::uint32_t source_of(const Slot& slot, const Schedule& schedule);
std::uint32_t destination_of(const Slot& slot, const Schedule& schedule);

/// The slots that a slot needs. The first is of the same virtual stage; the second, if there is one, is of the virtual
/// stage before (forward) or after (backward). An I among them means the gradients of inputs, from an I or a B.
class Needs {
 public:
  Needs(const Slot& slot, std::uint32_t stages);

  const Slot* begin() const { return slots_.data(); }
  const Slot* end() const { return slots_.data() + count_; }

 private:
  void add(SlotKind kind, std::uint32_t stage, std::uint32_t micro_batch) {
    slots_[count_++] = {kind, stage, micro_batch};
  }

  std::array<Slot, 2> slots_{};
  std::size_t count_ = 0;
};

/// Numbers results: the output, the gradients of inputs, and the gradients of weights of each virtual stage and
/// micro-batch. A B and an I have the same number, because other slots wait for the gradients of inputs only.
class ResultNumbers {
 public:
  explicit ResultNumbers(const Schedule& schedule)
      : stages_(schedule.stages()), micro_batches_(schedule.micro_batches) {}

  std::size_t size() const { return 3 * stages_ * micro_batches_; }
  /// @pre the slot is in range
  std::size_t operator()(const Slot& slot) const {
    const std::size_t result = slot.kind == SlotKind::forward ? 0 : slot.kind == SlotKind::backward_weights ? 2 : 1;
    return (result * stages_ + slot.stage) * micro_batches_ + slot.micro_batch;
  }

 private:
  std::size_t stages_, micro_batches_;
};

}  // namespace railyard::workload::training
