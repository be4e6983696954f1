// One function for each schedule. p: pipeline ranks, m: micro-batches, r: a rank, counted from 0.
//
//   naive        one micro-batch at a time: forward through all ranks, then backward
//   gpipe        all forward slots, then all backward slots (GPipe, arXiv 1811.06965; the order of backward slots is that
//                of figure 3 of arXiv 2104.04473)
//   1f1b         rank r runs p - r - 1 forward slots, then one forward and one backward slot in turn (PipeDream-Flush;
//                Megatron-LM, arXiv 2104.04473, section 2.2.1)
//   interleaved  each rank holds v virtual stages and runs g micro-batches in a row through each of them; 2(p - r - 1) +
//                (v - 1)g forward slots before the turns (arXiv 2104.04473, section 2.2.2; g from Megatron-Core)
//   zb_h1        1f1b with the backward slot split: rank r puts its W off by r micro-batches, so that each rank keeps p
//                micro-batches until W (Zero Bubble, arXiv 2401.10241, section 2.1)
//   zb_h2        2(p - r - 1) forward slots first, and W put off by 2r micro-batches: each rank keeps 2p - 1 micro-batches
//                (section 2.2 there)
//   zb_auto      the best of several greedy orders within a limit of kept micro-batches (section 3 there, which reduces
//                the same idle times with other heuristics)
//   zbv          rank r holds virtual stages r and 2p - 1 - r; one rank computes both loss and first layers, and each
//                rank keeps at most 2p halves of a stage (arXiv 2405.15362; the order of its zero-bubble V schedule in
//                torch.distributed.pipelining, ScheduleZBVZeroBubble)
//   dualpipe_v   the V of zbv with pairs of an F and a whole B of different virtual stages, which may overlap; the backward
//                slots at both ends are split. From m = 2p on (DualPipe of DeepSeek-V3, arXiv 2412.19437, cut in half:
//                each rank is one of its two ranks that hold the same stages; the order of deepseek-ai/DualPipe,
//                dualpipev.py)
#pragma once

#include <vector>

#include "workload/training/schedule/times.h"

namespace railyard::workload::training {

struct ScheduleSpec;

Schedule naive_schedule(std::uint32_t p, std::uint32_t m);
Schedule gpipe_schedule(std::uint32_t p, std::uint32_t m);
/// @param pairs  an F and the B after it run as one: 2(p - r) forward slots before the first backward slot. The B of a pair
/// needs that of the next rank, whose F left this rank one pair earlier, so each rank is two pairs ahead of the next
Schedule one_f_one_b_schedule(std::uint32_t p, std::uint32_t m, bool pairs = false);
/// With pairs, one more forward slot comes first: then the two of a pair are different. @pre no group is smaller than p
Schedule interleaved_schedule(const ScheduleSpec& spec);
/// Whether an F and the B after it are a pair. The last F is followed by a B that other ranks may owe to this F.
bool interleaved_pair(const ScheduleSpec& spec, std::uint32_t rank, const Slot& forward, const Slot& backward);
Schedule zb_h1_schedule(std::uint32_t p, std::uint32_t m);
Schedule zb_h2_schedule(std::uint32_t p, std::uint32_t m);
/// @param limit  of each rank's kept activations, in micro-batches, see largest_stash(). @pre not less than p
/// @param kept_for_weights  share of a micro-batch's activations that stays from I to W, above 0
/// @param times  by rank
Schedule zb_auto_schedule(std::uint32_t m, double limit, double kept_for_weights, const std::vector<StageTimes>& times);
Schedule zbv_schedule(std::uint32_t p, std::uint32_t m);
/// @pre m >= 2p
Schedule dualpipe_v_schedule(std::uint32_t p, std::uint32_t m);

}  // namespace railyard::workload::training
