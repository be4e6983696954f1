// --describe: the elaborated machine. --explain: derived numbers, without a run.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "sc_main/simulation.h"

namespace railyard {

/// Devices, links with rate and latency, and the routes of the workload's traffic classes; also machine.json.
nlohmann::ordered_json describe(Simulation& simulation);
std::string describe_text(const nlohmann::ordered_json& machine);

/// Numbers that the workload derives from the scenario (WorkloadRun::explain), and the routes.
nlohmann::ordered_json explain(Simulation& simulation);
std::string explain_text(Simulation& simulation, const nlohmann::ordered_json& numbers);

}  // namespace railyard
