// --describe: the elaborated machine. --explain: the derived numbers before running.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "sc_main/simulation.h"

namespace railyard {

/// Devices, links with rate and latency, and the routes that the workload's classes take; also machine.json.
nlohmann::ordered_json describe(Simulation& simulation);
std::string describe_text(const nlohmann::ordered_json& machine);

/// Parameters, memory per rank, KV bytes, kernel and communication times of one chunk and one step, paths and ideal times.
nlohmann::ordered_json explain(Simulation& simulation);
std::string explain_text(const nlohmann::ordered_json& numbers);

}  // namespace railyard
