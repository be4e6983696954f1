#include "sc_main/scenario/load.h"

#include <filesystem>
#include <set>

#include "sc_main/scenario/events.h"
#include "sc_main/scenario/model/config.h"
#include "sc_main/scenario/model/profile.h"
#include "sc_main/scenario/table/resolved.h"
#include "sc_main/scenario/table/words.h"
#include "sc_main/scenario/workload.h"

namespace railyard {

using namespace scenario;

namespace {

constexpr std::size_t kLongestScenario = 1u << 20;

FabricSpec resolve_fabric(const FabricSection& written) {
  const auto class_spec = [](const ClassSection& c) {
    return transport::ClassSpec{static_cast<std::uint8_t>(c.vc), c.weight, static_cast<std::uint8_t>(c.priority)};
  };
  FabricSpec fabric;
  fabric.fidelity = written.fidelity;
  fabric.transaction_bytes = written.transaction_bytes.value_or(0);
  fabric.classes[static_cast<std::size_t>(TrafficClass::tp)] = class_spec(written.classes.tp);
  fabric.classes[static_cast<std::size_t>(TrafficClass::pp)] = class_spec(written.classes.pp);
  fabric.classes[static_cast<std::size_t>(TrafficClass::kv)] = class_spec(written.classes.kv);
  return fabric;
}

std::vector<std::string> group_roles(WorkloadKind kind) {
  switch (kind) {
    case WorkloadKind::disaggregated_prefill: return {"prefill", "decode"};
    case WorkloadKind::collective:
    case WorkloadKind::p2p:
    case WorkloadKind::kernel:
    case WorkloadKind::layer:
    case WorkloadKind::overlap: break;
  }
  return {};
}

transformer::ModelShape required_model(const ModelSection& written, const Source& source,
                                       std::vector<std::string>& notes) {
  if (!value_at(source.root, "model")) throw InputError(source.root->origin, "model: is required; the model");
  LoadedModel model =
      load_model(written.config, place_of(source.root, "model.config"), written.dtype, written.kv_dtype);
  notes.insert(notes.end(), model.notes.begin(), model.notes.end());
  return std::move(model.shape);
}

/// A group on which nothing runs is a mistake, most likely in its name.
void check_groups_used(const std::set<std::uint32_t>& used, const platforms::MachineSpec& machine,
                       const Source& source) {
  std::vector<std::string> names;
  for (const std::uint32_t group : used) names.push_back(machine.groups[group].name);
  for (std::uint32_t g = 0; g < machine.groups.size(); ++g) {
    const std::string key = "machine.groups." + machine.groups[g].name;
    if (used.count(g) == 0)
      throw InputError(place_of(source.root, key),
                       key + ": the workload uses no GPU of this group" + suggestion(machine.groups[g].name, names));
  }
}

/// The groups of GPUs that are counted over all groups.
std::set<std::uint32_t> groups_of(const std::vector<std::uint32_t>& gpus, const platforms::MachineSpec& machine) {
  std::set<std::uint32_t> used;
  for (const std::uint32_t gpu : gpus) {
    std::uint32_t group = 0, first = 0;
    while (gpu >= first + machine.groups[group].servers * machine.board.gpus)
      first += machine.groups[group++].servers * machine.board.gpus;
    used.insert(group);
  }
  return used;
}

/// A key that would change nothing is a mistake.
void refuse_model(const Source& source, const ComputeSection& compute) {
  const std::string profile = "compute.profile";
  if (!compute.profile.empty())
    throw InputError(place_of(source.root, profile), profile + ": this workload.kind runs no model");
  if (value_at(source.root, "model"))
    throw InputError(place_of(source.root, "model"), "model: this workload.kind runs no model");
}

}  // namespace

Scenario load_scenario(const std::string& path, const std::vector<std::string>& sets,
                       const std::string& executable_platform) {
  Source source;
  source.root = parse_yaml(read_file(path, {path, 1, 1}, "", kLongestScenario), path);
  if (source.root->kind != Node::Kind::mapping) {
    throw InputError(source.root->origin, "expected a mapping of scenario keys, got " + source.root->described());
  }
  for (const std::string& option : sets) source.root = with_set_option(source.root, option);
  const Fields& fields = scenario_table().fields();
  source.root = with_paths_from_here(source.root, fields, std::filesystem::path(path).parent_path().string());

  ScenarioFile written;
  scenario_table().read(written, *source.root, "");
  if (!written.platform.empty() && written.platform != executable_platform) {
    throw InputError(place_of(source.root, "platform"), "platform: the scenario is for " + written.platform +
                                                            ", this executable is " + executable_platform +
                                                            "; run it with " + written.platform);
  }

  Scenario result;
  result.path = path;
  result.name = written.name.empty() ? path : written.name;
  result.resolved = resolved_text(source.root, fields, result.name, executable_platform);
  result.platform = executable_platform;
  result.seed = written.seed;
  result.fabric = resolve_fabric(written.fabric);
  result.events = resolve_events(written.events, source);
  result.machine = resolve_machine(written.machine, executable_platform, group_roles(written.workload.kind), source);
  result.machine.seed = written.seed;
  switch (written.workload.kind) {
    case WorkloadKind::disaggregated_prefill:
      result.model = required_model(written.model, source, result.notes);
      result.workload = resolve_prefill(written.workload.prefill, result.model, result.machine, source);
      for (workload::prefill::Mapping* mapping : {&result.prefill().prefill, &result.prefill().decode})
        mapping->profile = load_profile(written.compute, result.model, mapping->tp, source);
      break;
    case WorkloadKind::collective:
      refuse_model(source, written.compute);
      result.workload = resolve_collective(written.workload.collective, result.machine, source);
      check_groups_used(
          groups_of(std::get<workload::collective_bench::CollectiveBenchSpec>(result.workload).gpus, result.machine),
          result.machine, source);
      break;
    case WorkloadKind::p2p:
      refuse_model(source, written.compute);
      result.workload = resolve_p2p(written.workload.p2p, result.machine, source);
      check_groups_used(groups_of(std::get<workload::p2p::PointToPointSpec>(result.workload).gpus, result.machine),
                        result.machine, source);
      if (!written.workload.p2p.p2p) remove_peer_access(result.machine);
      break;
    case WorkloadKind::kernel:
      refuse_model(source, written.compute);
      result.workload = resolve_kernels(written.workload.kernel, result.machine, source);
      break;
    case WorkloadKind::layer:
      result.model = required_model(written.model, source, result.notes);
      result.workload = resolve_layer(written.workload.layer, written.compute, result.model, result.machine, source);
      check_groups_used({0}, result.machine, source);
      break;
    case WorkloadKind::overlap:
      refuse_model(source, written.compute);
      result.workload = resolve_overlap(written.workload.overlap, result.machine, source);
      check_groups_used(groups_of(std::get<workload::overlap::OverlapSpec>(result.workload).gpus, result.machine),
                        result.machine, source);
      break;
  }
  result.workload_origin = place_of(source.root, "workload");
  result.prefill_origin = place_of(source.root, "workload.prefill");
  result.decode_origin = place_of(source.root, "workload.decode");
  result.model_origin = place_of(source.root, "model");
  result.network_origin = place_of(source.root, "machine.network");
  return result;
}

}  // namespace railyard
