// A schedule as a text table, which people can read and write:
//
//   # zbv, 2 ranks, 3 micro-batches
//   holders: 0 1 1 0
//   rank 0:  F0v0 F1v0 F2v0 F0v1 I0v1 ...
//   rank 1:  F0v0 F0v1 I0v1 W0v1 ...
//
// A token is a letter (F forward; B backward, or its parts I, gradients of inputs, and W, gradients of weights), the
// micro-batch, and, on a rank with several virtual stages, v and which of them, in the order of the model. `holders`
// gives the rank of each virtual stage; without it, virtual stage s is on rank s mod the number of ranks. # begins a
// comment.
#pragma once

#include <string>

#include "workload/training/schedule/schedule.h"

namespace railyard::workload::training {

/// The table of a schedule. @param comment  one line
std::string table_of(const Schedule& schedule, const std::string& comment);

/// Reads a table.
/// @param file  name for errors
/// @throws InputError at the token if the table is malformed, is not for so many ranks and micro-batches, or has a fault
/// (see fault_of())
Schedule read_table(const std::string& text, const std::string& file, std::uint32_t ranks, std::uint32_t micro_batches);

}  // namespace railyard::workload::training
