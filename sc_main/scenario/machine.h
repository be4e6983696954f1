// The machine of a scenario: looks up datasheets, derives the rates of links from their two ends, and applies what-ifs.
#pragma once

#include <string>
#include <vector>

#include "sc_main/scenario/parameters.h"

namespace railyard::scenario {

/// `roles`: the groups of GPUs that the workload uses, in its order; each has one server by default, and other groups
/// are refused. Empty: any groups, in the order of the scenario, or one group called node.
/// @param gpus_alone  the workload uses GPUs without their board, so a board need not hold them
platforms::MachineSpec resolve_machine(const MachineSection& written, const std::string& platform,
                                       const std::vector<std::string>& roles, bool gpus_alone, const Source& source);

/// The network between several servers, if the scenario does not name its NICs.
std::vector<Assumption> assumed_parts(const MachineSection& written, const platforms::MachineSpec& machine);

/// Modules of the user; their libraries and places are looked up when the machine is built (sc_main/user_modules.h).
/// @throws InputError for a name that is none
std::vector<ModuleSpec> resolve_modules(const std::vector<ModuleItem>& written, const Source& source);

}  // namespace railyard::scenario
