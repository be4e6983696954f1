// The room `schedule` orders the slots of a pipeline. A Schedule is generated (generators.h, from a ScheduleSpec) or read
// (text.h), and checked (check.h); times.h runs it with known durations, ideal.h has the closed forms, gantt.h draws it.
//
// A pipeline schedule as data: for each pipeline rank the order of its slots, and which rank holds which virtual stage.
// A slot is one pass of one micro-batch through one virtual stage.
//
// Virtual stages are numbered in the order of the model. Without interleaving, virtual stage r is on rank r. With v
// virtual stages a rank, virtual stage s is on rank s mod p (Megatron-LM, arXiv 2104.04473), and in a V-shaped schedule
// (arXiv 2405.15362) ranks are visited forth and then back.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace railyard::workload::training {

/// What a slot computes. A backward slot is either whole, or its two parts are slots of their own (arXiv 2401.10241).
enum class SlotKind : std::uint8_t {
  forward,
  backward,         ///< gradients of inputs and of weights
  backward_inputs,  ///< gradients of inputs only, which the stage before waits for
  backward_weights  ///< gradients of weights only; nobody waits for them before the end of the step
};

struct Slot {
  SlotKind kind = SlotKind::forward;
  std::uint32_t stage = 0;  ///< virtual stage
  std::uint32_t micro_batch = 0;

  bool operator==(const Slot& o) const { return kind == o.kind && stage == o.stage && micro_batch == o.micro_batch; }
};

struct Schedule {
  std::uint32_t micro_batches = 1;
  std::vector<std::uint32_t> rank_of;    ///< by virtual stage
  std::vector<std::vector<Slot>> slots;  ///< by pipeline rank, in order
  /// DualPipe (arXiv 2412.19437): micro-batches enter at both ends of a pipeline of twice the ranks. Rank r of one half
  /// holds the same virtual stages as its partner in the other half, rank 2p - 1 - r, and both have the same slots. A
  /// micro-batch goes through the first half of the virtual stages on one half of the ranks, and then on the other.
  bool both_ends = false;

  std::uint32_t ranks() const { return static_cast<std::uint32_t>(slots.size()); }
  std::uint32_t stages() const { return static_cast<std::uint32_t>(rank_of.size()); }
};

}  // namespace railyard::workload::training
