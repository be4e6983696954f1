// Loading a scenario: YAML and --set options in, typed and checked structs out. No SystemC, so that it can be fuzzed.
//
// The way of a scenario: text -> tree of places (node.h) -> --set options -> the parameter table's structs
// (parameters.h, record.h) -> datasheets, model config and trace looked up -> what needs more than one value checked ->
// railyard::Scenario. Whatever is wrong on the way is one InputError, "file:line:column: error: key: what; what is
// accepted".
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/input_error.h"
#include "sc_main/scenario.h"

namespace railyard {

/// @param path                 of the scenario; paths inside are relative to its folder
/// @param sets                 "a.b.c=VALUE", applied in order before anything is checked
/// @param executable_platform  the platform that the scenario must be for, and its default
/// @throws InputError
Scenario load_scenario(const std::string& path, const std::vector<std::string>& sets,
                       const std::string& executable_platform);

/// JSON Schema (draft-07) of a scenario.
nlohmann::json scenario_schema();
/// The parameters, for --help.
std::string parameter_help();
/// The reference page, docs/scenario-reference.md.
std::string parameter_reference_markdown();

}  // namespace railyard
