// The file of one rank of a Chakra trace: its messages, and what a node becomes.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "workload/execution_trace/trace.h"

namespace railyard::scenario {

/// Adds the rank's program to the trace.
/// @param groups  places in the trace's groups, by pg_name
/// @pre the trace has all ranks and groups
/// @throws InputError, which names the file and the node
void read_chakra_rank(const std::string& path, std::uint32_t rank, workload::execution_trace::Trace& trace,
                      const std::map<std::string, std::uint32_t>& groups);

}  // namespace railyard::scenario
