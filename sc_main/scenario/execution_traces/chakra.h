// The room `execution_traces` reads traces of other programs into a Trace (workload/execution_trace/trace.h): Chakra's
// protobuf files with Railyard's own attributes (own_attributes.h), and SimAI's text (SimaiFile, simai.h). The loader
// of the kind `trace` calls them.
//
// Reads Chakra execution traces (mlcommons/chakra, schema/protobuf/et_def.proto, version 0.0.4): PREFIX.R.et for each
// rank R, and communicator groups as ASTRA-sim 2.0 has them, a JSON object {"NAME": [ranks]}.
//
// Sizes are those of ASTRA-sim 2.0: comm_size is the input buffer of one rank, so an all-gather moves comm_size x ranks.
// A node without pg_name runs on all ranks. Attributes that Railyard does not know are skipped: traces carry many.
#pragma once

#include <optional>
#include <string>

#include "base/input_error.h"
#include "workload/execution_trace/trace.h"

namespace railyard::scenario {

struct ChakraFiles {
  std::string prefix;
  std::optional<std::string> groups;
  /// Of the keys, for errors about files that are not there.
  Origin prefix_origin, groups_origin;
};

/// "PREFIX.3.et"
std::string chakra_file(const std::string& prefix, std::uint32_t rank);

/// @throws InputError, which names the file and the node
workload::execution_trace::Trace read_chakra(const ChakraFiles& files);

}  // namespace railyard::scenario
