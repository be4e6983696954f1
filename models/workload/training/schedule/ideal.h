// Closed forms of step time and kept activations, for equal stages and transfers that take no time. p: ranks, m:
// micro-batches, v: virtual stages of a rank; F, B, W: forward, and the backward pass of inputs and of weights, of all
// that a rank holds.
//
//   naive         m p (F + B + W)
//   gpipe, 1f1b   (m + p - 1)(F + B + W)
//   interleaved   m (F + B + W) + (p - 1)(F + B + W)/v, if m is a multiple of p and groups have p micro-batches
//   zb_h1         m (F + B + W) + (p - 1)(B + max(0, F - W)), from m = p on. For W <= F this is the paper's
//                 (p - 1)(F + B - W). For W > F it is more, because rank 0 has p forward slots before its first I: the
//                 limit of p kept micro-batches allows no more, and (p - 1)B of its time is left over
//   zb_h2         m (F + B + W) + max(0, (p - 1)(B - F + 2 max(0, F - W))), from m = 2p - 1 on. For W <= F this is the
//                 paper's max(0, (p - 1)(F + B - 2W))
//
// The step time is the longest time that a rank takes from its first start to its last end. With naive, gpipe, 1f1b,
// interleaved, and zb_h1 for W <= B, that is rank 0's, and the whole run takes as long. With zb_h2 later ranks start and
// end later.
#pragma once

#include <optional>

#include "workload/training/schedule/spec.h"

namespace railyard::workload::training {

/// The closed form, or none if there is no closed form for this kind and number of micro-batches.
/// @param stage  times of one virtual stage
std::optional<Time> closed_form_step(const ScheduleSpec& spec, const StageTimes& stage);

/// The closed form, or, without one, what the reference scheduler finds for equal stages without transfers.
Time ideal_step(const ScheduleSpec& spec, const StageTimes& stage);

/// Share of the ideal step in which the rank is idle.
double ideal_bubble_fraction(const ScheduleSpec& spec, const StageTimes& stage);
/// The same by the reference scheduler, for equal stages with transfers. So Zero Bubble (arXiv 2401.10241, table 5) finds
/// rates from profiled times.
double planned_bubble_fraction(const ScheduleSpec& spec, const StageTimes& stage);

/// Largest number of micro-batches kept on a rank, each counted once per virtual stage (see largest_stash()): naive 1;
/// gpipe m; 1f1b min(m, p - r), or 2(p - r) with pairs; interleaved min(mv, 2(p - r - 1) + (v - 1)g + 1); zb_h1 min(m, p); zb_h2 min(m, 2p - 1);
/// dualpipe_v 2p + 1; none for zb_auto and zbv.
std::optional<std::uint32_t> closed_form_stash(const ScheduleSpec& spec, std::uint32_t rank);

}  // namespace railyard::workload::training
