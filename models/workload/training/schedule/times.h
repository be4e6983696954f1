// The reference scheduler: when each slot of a schedule runs if its duration is known, its rank does nothing else, and a
// transfer between two ranks takes a fixed time beside other work. The executor's idle times are compared with it.
#pragma once

#include <vector>

#include "base/units.h"
#include "workload/training/schedule/schedule.h"

namespace railyard::workload::training {

/// Durations of the slots of one virtual stage, and of transfers from it to the next and the previous one. Transfers
/// count between different ranks only. A B takes the time of its I and its W.
struct StageTimes {
  Time forward, backward_inputs, backward_weights;
  Time forward_transfer, backward_transfer;

  Time of(SlotKind kind) const;
  /// A micro-batch in both directions.
  Time all() const { return forward + backward_inputs + backward_weights; }
};

struct SlotTimes {
  Time start, end;
};

struct RankTimes {
  Time first_start, last_end;
  Time busy;
  std::uint32_t stash = 0;  ///< most micro-batches, counted once per virtual stage, from F until B or W

  /// The rank's own step, when no barrier holds it: from its first start to its last end.
  Time window() const { return last_end - first_start; }
};

struct ScheduleTimes {
  std::vector<std::vector<SlotTimes>> slots;  ///< as in the schedule
  std::vector<RankTimes> ranks;
  Time makespan;  ///< from the first start on any rank to the last end

  Time idle(std::uint32_t rank) const { return makespan - ranks[rank].busy; }
  Time longest_window() const;
};

/// @param stages  by virtual stage
/// @pre the schedule has no fault
ScheduleTimes run_schedule(const Schedule& schedule, const std::vector<StageTimes>& stages);

/// Most activations that a rank keeps at once, in micro-batches of one virtual stage: from F until B. If the backward
/// pass is split, W keeps this share of them after I.
double largest_stash(const std::vector<Slot>& slots, double kept_for_weights);

}  // namespace railyard::workload::training
