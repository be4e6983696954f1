// A greedy order of split backward slots: whenever a rank is free, a rule selects its next slot from what has arrived.
// The orders depend on durations and transfers, so slow stages and slow links change them.
#pragma once

#include <vector>

#include "workload/training/schedule_times.h"

namespace railyard::workload::training {

/// F or I runs as soon as its input is there and the limits allow it. A rank without either runs a W.
struct GreedyRule {
  std::uint32_t stash = 1;               ///< micro-batches that a rank keeps until W, at most
  std::vector<std::uint32_t> in_flight;  ///< by rank: micro-batches between F and I, at most
  bool inputs_first = true;              ///< if F and I can both run: I; otherwise the one that did not run last
  bool keeps_appointments = true;        ///< no W if it would delay an F or I whose input is known to arrive before
};

/// @param times  by rank, which holds one virtual stage. @pre stash and in_flight are at least 1
Schedule greedy_schedule(std::uint32_t m, const std::vector<StageTimes>& times, const GreedyRule& rule);

}  // namespace railyard::workload::training
