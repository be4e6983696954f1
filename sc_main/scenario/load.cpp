#include "sc_main/scenario/load.h"

#include <filesystem>

#include "sc_main/scenario/events.h"
#include "sc_main/scenario/import/llmservingsim.h"
#include "sc_main/scenario/machine.h"
#include "sc_main/scenario/machine_parameters.h"
#include "sc_main/scenario/old_words.h"
#include "sc_main/scenario/table/resolved.h"
#include "workload/inference/service/serving_spec.h"

namespace railyard {

using namespace scenario;

namespace {

constexpr std::size_t kLongestScenario = 1u << 20;

LoadedModel required_model(const ModelSection& written, const Source& source) {
  if (!value_at(source.root, "model"))
    throw InputError(source.root->origin, "model: is required by this workload.kind");
  LoadedModel model =
      load_model(written.config, place_of(source.root, "model.config"), written.dtype, written.kv_dtype);
  if (!written.name.empty()) model.shape.name = written.name;
  if (written.quantization == Quantization::none) {
    remove_formats(model.shape);
    if (written.kv_dtype.empty()) model.shape.kv_dtype = model.shape.dtype;
  }
  return model;
}

/// Refuses a key that would have no effect, because it is a mistake.
void refuse_model(const Source& source, const ComputeSection& compute) {
  const std::string profile = "compute.profile";
  if (!compute.profile.empty())
    throw InputError(place_of(source.root, profile), profile + ": this workload.kind runs no model");
  if (value_at(source.root, "model"))
    throw InputError(place_of(source.root, "model"), "model: this workload.kind runs no model");
}

NodePtr with_set_options(NodePtr root, const std::vector<std::string>& sets) {
  for (const std::string& option : sets) root = with_set_option(root, option);
  return root;
}

/// @param source      with --set applied, and paths relative to the current directory
/// @param parameters  gets those of the machine; null: nobody asks
Scenario load_tree(const Source& source, const std::string& path, const std::string& executable_platform,
                   std::vector<MachineParameter>* parameters = nullptr) {
  const Fields& fields = scenario_table().fields();
  ScenarioFile written;
  scenario_table().read(written, *source.root, "");
  Scenario& result = written.scenario;
  if (!result.platform.empty() && result.platform != executable_platform) {
    throw InputError(place_of(source.root, "platform"), "platform: the scenario is for " + result.platform +
                                                            ", this executable is " + executable_platform +
                                                            "; run it with " + result.platform);
  }

  result.path = path;
  if (result.name.empty()) result.name = path;
  result.resolved = resolved_text(source.root, fields, result.name, executable_platform);
  result.platform = executable_platform;
  result.events = resolve_events(written.events, source);
  const Kind& kind = *written.workload.kind;
  result.kind = kind.name;
  if (!value_at(source.root, "fabric.fidelity")) result.fabric.fidelity = kind.fidelity;
  result.machine = resolve_machine(written.machine, executable_platform, kind.groups, kind.gpus_alone, source);
  result.machine.seed = result.seed;
  if (!kind.gpus_alone) result.assumed = assumed_parts(written.machine, result.machine);
  if (parameters != nullptr) *parameters = machine_parameters(written.machine, result.machine, source);
  result.modules = resolve_modules(written.machine.modules, source);
  ServedModel served;
  if (kind.runs_model) {
    LoadedModel model = required_model(written.model, source);
    result.model = std::move(model.shape);
    result.notes.insert(result.notes.end(), model.notes.begin(), model.notes.end());
    served = model.served;
  } else {
    refuse_model(source, written.compute);
  }
  const bool has_instances = kind.spec == &typeid(workload::inference::ServingSpec) && *kind.preset_of == '\0';
  const std::vector<InstanceEvent> changes = resolve_instance_events(written.events, has_instances, source);
  result.workload = kind.resolve(written.workload.section.get(),
                                 {result.model, result.machine, written.compute, source, served, changes});
  result.workload_origin = place_of(source.root, "workload");
  result.fold_origin = place_of(source.root, "simulation.fold");
  result.model_origin = place_of(source.root, "model");
  result.network_origin = place_of(source.root, "machine.network");
  return std::move(result);
}

Scenario load_file(const std::string& path, const std::vector<std::string>& sets,
                   const std::string& executable_platform, std::vector<MachineParameter>* parameters) {
  Source source;
  source.root = parse_yaml(read_file(path, {path, 1, 1}, "", kLongestScenario), path);
  if (source.root->kind != Node::Kind::mapping) {
    throw InputError(source.root->origin, "expected a mapping of scenario keys, got " + source.root->described());
  }
  std::vector<std::string> notes;
  source.root = with_paths_from_here(without_old_words(with_set_options(source.root, sets), notes),
                                     scenario_table().fields(), std::filesystem::path(path).parent_path().string());
  Scenario scenario = load_tree(source, path, executable_platform, parameters);
  scenario.notes.insert(scenario.notes.begin(), notes.begin(), notes.end());
  return scenario;
}

}  // namespace

Scenario load_scenario(const std::string& path, const std::vector<std::string>& sets,
                       const std::string& executable_platform) {
  return load_file(path, sets, executable_platform, nullptr);
}

Scenario load_scenario(const std::string& path, const std::vector<std::string>& sets,
                       const std::string& executable_platform, std::vector<MachineParameter>& parameters) {
  return load_file(path, sets, executable_platform, &parameters);
}

Scenario load_llmservingsim(const LlmServingSimOptions& options, const std::vector<std::string>& sets,
                            const std::string& executable_platform) {
  ImportedScenario imported = import_llmservingsim(options, executable_platform);
  const Source source{without_old_words(with_set_options(imported.root, sets), imported.notes)};
  Scenario scenario = load_tree(source, options.cluster_config, executable_platform);
  scenario.notes.insert(scenario.notes.begin(), imported.notes.begin(), imported.notes.end());
  return scenario;
}

}  // namespace railyard
