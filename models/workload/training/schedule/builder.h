// Builds the slots of a schedule rank by rank. Each virtual stage takes its micro-batches in order, so a generator only
// names the kind and the virtual stage of the next slot.
#pragma once

#include <numeric>
#include <vector>

#include "workload/training/schedule/schedule.h"

namespace railyard::workload::training {

class ScheduleBuilder {
 public:
  /// @param rank_of  by virtual stage
  ScheduleBuilder(std::uint32_t ranks, std::uint32_t micro_batches, std::vector<std::uint32_t> rank_of)
      : next_(rank_of.size()) {
    schedule_.micro_batches = micro_batches;
    schedule_.rank_of = std::move(rank_of);
    schedule_.slots.resize(ranks);
  }
  /// Virtual stage r on rank r.
  ScheduleBuilder(std::uint32_t ranks, std::uint32_t micro_batches)
      : ScheduleBuilder(ranks, micro_batches, std::vector<std::uint32_t>(ranks)) {
    std::iota(schedule_.rank_of.begin(), schedule_.rank_of.end(), 0u);
  }

  /// Adds the next micro-batch of a kind and virtual stage on its rank, if there is one left. A whole backward slot is the
  /// next one of both parts. @pre for it: the virtual stage has as many slots of each part
  void add(SlotKind kind, std::uint32_t stage) {
    const bool whole = kind == SlotKind::backward;
    std::uint32_t& next = next_[stage].of[static_cast<std::size_t>(whole ? SlotKind::backward_inputs : kind)];
    if (next == schedule_.micro_batches) return;
    schedule_.slots[schedule_.rank_of[stage]].push_back({kind, stage, next++});
    if (whole) ++next_[stage].of[static_cast<std::size_t>(SlotKind::backward_weights)];
  }
  void add(SlotKind kind, std::uint32_t stage, std::uint32_t count) {
    for (; count > 0; --count) add(kind, stage);
  }
  /// Micro-batches that a virtual stage has had in slots of this kind, or as a part of whole ones.
  std::uint32_t added(SlotKind kind, std::uint32_t stage) const {
    return next_[stage].of[static_cast<std::size_t>(kind)];
  }

  Schedule take() { return std::move(schedule_); }

 private:
  struct Next {
    std::uint32_t of[4] = {};
  };

  Schedule schedule_;
  std::vector<Next> next_;
};

}  // namespace railyard::workload::training
