// 1f1b with the backward slot split in two, and its relatives, which differ in two numbers of each rank. zb_h1 and zb_h2
// are two of them; zb_auto tries others.
#pragma once

#include <vector>

#include "workload/training/schedule/schedule.h"

namespace railyard::workload::training {

struct SplitBackward {
  std::uint32_t in_flight = 1;      ///< micro-batches between F and I, at most
  std::uint32_t weights_later = 0;  ///< a micro-batch's W follows the I of the micro-batch this much later
};

/// @param ranks  one for each rank. @pre in_flight is at least 1, and no rank has more than the rank before
Schedule split_backward_schedule(std::uint32_t m, const std::vector<SplitBackward>& ranks);

}  // namespace railyard::workload::training
