// Request traces: arrival times and token counts of real traffic.
//
// Azure LLM inference traces (Azure/AzurePublicDataset) are CSV with columns TIMESTAMP, ContextTokens and
// GeneratedTokens, found by name. Mooncake traces (kvcache-ai/Mooncake) are JSON lines with timestamp in milliseconds,
// input_length, output_length.
#pragma once

#include <string>
#include <vector>

#include "base/input_error.h"
#include "sc_main/scenario/kinds/requests.h"

namespace railyard::scenario {

/// The first `requests.max_count` rows by arrival, with the earliest at time zero and gaps divided by rate_scale.
/// @param path   of the trace; errors of reading refer to `where`
std::vector<workload::inference::Request> load_trace(const RequestsSection& requests, const std::string& path,
                                                     const Origin& where);

}  // namespace railyard::scenario
