// The room `scenario` turns YAML into checked structs, and is the only code that reads it. `table` has trees of values
// and tables of keys, `kinds` the keys of workloads, `datasheets` and `model` what a scenario names, `execution_traces`
// and `import` other programs' files. parameters.h has the keys outside of workload, machine.h and events.h what
// becomes of them, and machine_parameters.h where each value of a machine comes from; old_words.h reads words of earlier
// versions. sc_main calls load; reference_main.cpp writes the reference page.
//
// Loads a scenario: YAML and --set options become typed and checked structs. No SystemC, so it can be fuzzed.
//
// Steps: text -> tree of places (table/node.h) -> --set options -> paths (table/resolved.h) -> structs by the parameter
// tables (parameters.h, kinds/, table/record.h) -> datasheets, model config and trace looked up -> checks of several
// values together -> railyard::Scenario. Every failure is one InputError, "file:line:column: error: key: what; what is
// accepted".
#pragma once

#include <string>
#include <typeinfo>
#include <vector>

#include "base/input_error.h"
#include "sc_main/scenario.h"

namespace railyard {

namespace scenario {
struct LlmServingSimOptions;
struct MachineParameter;
}  // namespace scenario

/// @param path                 of the scenario; paths in the scenario are relative to its folder
/// @param sets                 "a.b.c=VALUE", applied in order before any check; paths in VALUE are relative to the
///                             current directory
/// @param executable_platform  the required platform of the scenario, and its default
/// @throws InputError
Scenario load_scenario(const std::string& path, const std::vector<std::string>& sets,
                       const std::string& executable_platform);

/// The same, with all parameters of the machine (machine_parameters.h).
Scenario load_scenario(const std::string& path, const std::vector<std::string>& sets,
                       const std::string& executable_platform, std::vector<scenario::MachineParameter>& parameters);

/// The same for files of LLMServingSim. @throws InputError
Scenario load_llmservingsim(const scenario::LlmServingSimOptions& options, const std::vector<std::string>& sets,
                            const std::string& executable_platform);

/// The value of workload.kind that runs this type of spec: "layer" for a workload::layer::LayerSpec.
const char* workload_kind(const std::type_info& spec);

/// JSON Schema (draft-07) of a scenario, as text.
std::string scenario_schema();
/// Parameters for --help: of a section or key ("machine", "workload.requests", a workload.kind), or all parameters.
/// @param section  "": all
/// @throws InputError if the section does not exist
std::string parameter_help(const std::string& section);
/// The values that parameter_help() accepts, except keys.
std::vector<std::string> parameter_sections();
/// The reference page, docs/scenario-reference.md.
std::string parameter_reference_markdown();

}  // namespace railyard
