// Loading a scenario: YAML and --set options in, typed and checked structs out. No SystemC, so that it can be fuzzed.
//
// The way of a scenario: text -> tree of places (table/node.h) -> --set options -> paths (table/resolved.h) -> structs by the
// parameter tables (parameters.h, kinds/, table/record.h) -> datasheets, model config and trace looked up -> what needs more than one
// value checked -> railyard::Scenario. Whatever is wrong on the way is one InputError, "file:line:column: error: key: what; what is
// accepted".
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/input_error.h"
#include "sc_main/scenario.h"

namespace railyard {

/// @param path                 of the scenario; paths inside are relative to its folder
/// @param sets                 "a.b.c=VALUE", applied in order before anything is checked; paths in them are relative to the
///                             current directory
/// @param executable_platform  the platform that the scenario must be for, and its default
/// @throws InputError
Scenario load_scenario(const std::string& path, const std::vector<std::string>& sets,
                       const std::string& executable_platform);

/// JSON Schema (draft-07) of a scenario.
nlohmann::json scenario_schema();
/// Parameters for --help: of a section or key ("machine", "workload.requests", a workload.kind), or all of them.
/// @param section  "": all
/// @throws InputError if there is no such section
std::string parameter_help(const std::string& section);
/// What parameter_help() takes, but for keys.
std::vector<std::string> parameter_sections();
/// The reference page, docs/scenario-reference.md.
std::string parameter_reference_markdown();

}  // namespace railyard
