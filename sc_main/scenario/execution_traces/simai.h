// A workload in the text format of SimAI as an execution trace. Every rank runs all rows, as in SimAI: forward from the
// first row to the last one, then gradients from the last row to the first one. A rank has one thread of work:
//
//   compute time of the row, then its collective; the next work waits for the collective, except those of weight
//   gradients, which run beside later work, in order. UPDATE_NS follows each collective.
//
// Groups: tp consecutive ranks; replicas (dp) next, of which ep consecutive ones share experts; pipeline stages
// outermost, Megatron's order. SimAI has the same groups with pp: 1.
//
// With pp above 1 SimAI simulates one stage and adds bubble and transfers by a formula. Here stages run: the rows must
// hold `ga` equal blocks, one for each micro-batch; they run in the order 1f1b, or interleaved with vpp above 1, where a
// block is cut into vpp parts of equal numbers of rows; pp_comm bytes go from stage to stage, and gradients back. Rows
// before the blocks begin and end the step of each stage, rows after the blocks follow the last block.
#pragma once

#include "sc_main/scenario/execution_traces/simai_file.h"
#include "workload/execution_trace/trace.h"

namespace railyard::scenario {

/// @param gpus  of the machine. @param server_gpus  of a server: the first dimension of HYBRID_DATA_MODEL
/// @throws InputError at the file's first line
workload::execution_trace::Trace simai_trace(const SimaiFile& file, std::uint32_t gpus, std::uint32_t server_gpus);

}  // namespace railyard::scenario
