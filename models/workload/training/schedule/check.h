// Whether a schedule can run: each virtual stage has each micro-batch once in both directions, on the rank that holds
// the stage, and no rank waits for ever.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "workload/training/schedule/schedule.h"

namespace railyard::workload::training {

/// The first thing that is wrong with a schedule.
struct ScheduleFault {
  std::string text;  ///< names the slot; for a deadlock, the ranks and slots of the cycle
  std::uint32_t rank = 0;
  std::size_t position = 0;  ///< of the slot on its rank; the number of slots there if a slot is missing
};

/// @pre rank_of names only ranks of the schedule
std::optional<ScheduleFault> fault_of(const Schedule& schedule);

}  // namespace railyard::workload::training
