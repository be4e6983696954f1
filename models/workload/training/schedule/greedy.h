// A greedy order of split backward slots: whenever a rank is free, a rule selects its next slot from what has arrived.
// The orders depend on durations and transfers, so slow stages and slow links change them.
#pragma once

#include <vector>

#include "workload/training/schedule/times.h"

namespace railyard::workload::training {

/// F or I runs as soon as its input is there and the limits allow it. A rank without either runs a W.
struct GreedyRule {
  double limit = 1;                      ///< of each rank's kept activations, in micro-batches, see largest_stash()
  double kept_for_weights = 1;           ///< share of a micro-batch's activations that stays from I to W
  std::vector<std::uint32_t> in_flight;  ///< by rank: micro-batches between F and I, at most
  bool inputs_first = true;              ///< if F and I can both run: I; otherwise the one that did not run last
  bool keeps_appointments = true;        ///< no W if it would delay an F or I whose input is known to arrive before
};

/// @param times  by rank, which holds one virtual stage. @pre limit and in_flight are at least 1
Schedule greedy_schedule(std::uint32_t m, const std::vector<StageTimes>& times, const GreedyRule& rule);

}  // namespace railyard::workload::training
