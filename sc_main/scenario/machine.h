// The machine of a scenario: datasheets looked up, rates of links derived from what they join, what-ifs applied.
#pragma once

#include <string>
#include <vector>

#include "sc_main/scenario/parameters.h"

namespace railyard::scenario {

/// `roles`: the groups that the workload runs on, in its order, each of one server unless written otherwise; other groups
/// are refused. Empty: any groups, in the order they are written, or one called node.
platforms::MachineSpec resolve_machine(const MachineSection& written, const std::string& platform,
                                       const std::vector<std::string>& roles, const Source& source);

}  // namespace railyard::scenario
