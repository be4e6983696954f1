// --describe: the elaborated machine. --explain: derived numbers, without a run.
#pragma once

#include <string>

#include "sc_main/simulation.h"
#include "sc_main/value.h"

namespace railyard {

/// Devices, links with rate and latency, and the routes of the workload's traffic classes; also machine.json.
Value describe(Simulation& simulation);
std::string describe_text(const Value& machine);

/// What the scenario leaves to defaults of its platform: a list of {key, value, source}.
Value assumed(const Scenario& scenario);
/// A line for each.
std::string assumed_text(const Scenario& scenario);

/// The device with this window.
const char* name_of_memory(Simulation& simulation, transport::Window memory);

/// Numbers that the workload derives from the scenario (WorkloadRun::explain), and the routes.
Value explain(Simulation& simulation);
std::string explain_text(Simulation& simulation, const Value& numbers);

}  // namespace railyard
