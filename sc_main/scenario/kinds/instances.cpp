#include "sc_main/scenario/kinds/instances.h"

#include <algorithm>
#include <cstddef>
#include <set>

#include "sc_main/scenario/datasheets/datasheets.h"
#include "sc_main/scenario/kinds/host.h"
#include "sc_main/scenario/kinds/ranks_and_sizes.h"
#include "sc_main/scenario/kinds/scheduler.h"
#include "sc_main/scenario/kinds/speculation.h"
#include "sc_main/scenario/table/words.h"

namespace railyard::scenario {

using workload::GraphMode;
using workload::inference::DraftMethod;
using workload::inference::InstanceRole;
using workload::inference::InstanceSpec;
using workload::inference::KvBlocks;

namespace {

constexpr double kMostInstances = 4096;

GraphSheet resolve_graphs(const GraphSheet& sheet, const Source& source) {
  GraphSheet graphs = sheet;
  const std::string path = "workload.cudagraph";
  if (const NodePtr written = value_at(source.root, path)) graphs_record().read(graphs, *written, path);
  return graphs;
}

std::uint32_t group_of(const InstanceSection& written, const platforms::MachineSpec& machine, const std::string& key,
                       const Source& source) {
  if (written.group.empty()) return 0;
  return group_named(written.group, key + ".group", machine, source);
}

void check_replicas(const InstanceSpec& spec, const std::string& key, const Source& source) {
  const auto refuse = [&](const std::string& what, const std::string& accepted) {
    throw InputError(place_of(source.root, key + ".dp"), key + ".dp: " + std::to_string(spec.mapping.dp) + " with " +
                                                             what + " is not modelled; accepted: " + accepted);
  };
  if (spec.mapping.dp == 1) return;
  if (spec.mapping.tp > 1 && spec.rules.replica_sum == transformer::ReplicaSum::one_rank)
    refuse("tp " + std::to_string(spec.mapping.tp) + " by engine " + spec.engine.name, "tp 1, or another engine");
  if (spec.mapping.pp > 1) refuse("pp " + std::to_string(spec.mapping.pp), "pp 1");
}

EngineSheet engine_of(const InstanceSection& written, const InstanceDefaults& defaults, const std::string& key,
                      const Source& source) {
  const std::string path = (written.engine ? key : "workload") + ".engine";
  return load_serving_engine({written.engine.value_or(defaults.engine), path, place_of(source.root, path)});
}

InstanceSpec resolve_instance(const InstanceSection& written, const InstanceDefaults& defaults, const std::string& key,
                              const Setting& of_all) {
  InstanceSpec spec;
  spec.kv_dtype = written.kv_dtype;
  const transformer::ModelShape model = model_of(of_all.model, spec);
  const Setting setting{model, of_all.machine, of_all.compute, of_all.source, of_all.served, of_all.instance_events};
  spec.name = written.name;
  spec.key = key;
  spec.where = place_of(setting.source.root, key);
  spec.role = written.role;
  spec.group = group_of(written, setting.machine, key, setting.source);
  const platforms::GroupSpec& group = setting.machine.groups[spec.group];
  const EngineSheet engine = engine_of(written, defaults, key, setting.source);
  spec.engine = engine;
  spec.rules = engine.rules;
  spec.host = resolve_host(*engine.host, setting.machine.board.cpu, setting.source, defaults.streams);
  const GraphSheet graphs = resolve_graphs(engine.cudagraph, setting.source);
  spec.cudagraph = graphs;
  spec.memory = defaults.memory;
  if (graphs.mode != GraphMode::none) spec.memory.engine_reserved_bytes += graphs.reserved_bytes;
  spec.mapping = resolve_mapping(written.mapping, nullptr, {key, group.name, key + ".gpus", spec.rules.extra_layers},
                                 written.gpus, setting.model, setting.machine, setting.source);
  spec.mapping.profile = load_profile(setting.compute, setting.model, spec.mapping.tp, setting.source);
  check_replicas(spec, key, setting.source);
  spec.mapping.experts =
      resolve_expert_ranks(written.ep, defaults.experts, spec.mapping, setting.model, key, setting.source);
  spec.mapping.experts.sum = spec.rules.replica_sum;
  spec.rules.micro_batches =
      resolve_micro_batches(defaults.experts, spec.mapping, spec.rules.micro_batches, spec.engine.name, setting.source);
  const std::string blocks_key = (written.kv_blocks ? key : "workload") + ".kv_blocks";
  if (const std::optional<std::uint32_t> blocks = written.kv_blocks ? written.kv_blocks : defaults.kv_blocks)
    spec.kv_blocks = KvBlocks{*blocks, blocks_key, place_of(setting.source.root, blocks_key)};
  resolve_speculation(spec, key, setting);
  const bool needs_tokens = spec.speculation && spec.speculation->method == DraftMethod::ngram;
  spec.scheduler =
      resolve_scheduler({*engine.scheduler, group.gpu, spec.host.async && !needs_tokens, setting.served.context_tokens},
                        spec.mapping.pp, key, setting.source);
  resolve_drafts(spec, key, setting);
  spec.rules.passes_residual = spec.rules.passes_residual && setting.served.keeps_residual;
  return spec;
}

/// Each instance of the scenario as often as its count says.
std::vector<InstanceSection> counted(const InstanceSection& written, const std::string& key, const Source& source) {
  std::vector<InstanceSection> all(written.count, written);
  if (written.count == 1) return all;
  const std::uint64_t listed = written.gpus ? written.gpus->size() : 0;
  if (listed % written.count != 0)
    throw InputError(place_of(source.root, key + ".gpus"), key + ".gpus: lists " + std::to_string(listed) +
                                                               " GPUs, which are not as many for each of the " +
                                                               std::to_string(written.count) + " instances");
  const auto each = static_cast<std::ptrdiff_t>(listed / written.count);
  for (std::uint32_t i = 0; i < written.count; ++i) {
    all[i].name += std::to_string(i);
    if (written.gpus) all[i].gpus.emplace(written.gpus->begin() + i * each, written.gpus->begin() + (i + 1) * each);
  }
  return all;
}

/// Instances without `gpus` get theirs after all others.
void place(const std::vector<InstanceSection>& written, std::vector<InstanceSpec>& instances,
           const platforms::MachineSpec& machine) {
  FreeGpus free(machine);
  for (std::size_t i = 0; i < instances.size(); ++i)
    for (const std::uint32_t gpu : written[i].gpus ? instances[i].mapping.placement : std::vector<std::uint32_t>())
      if (!free.take(instances[i].group, gpu))
        throw InputError(instances[i].where, instances[i].key + ".gpus: GPU " + std::to_string(gpu) + " of group " +
                                                 machine.groups[instances[i].group].name +
                                                 " is in two instances; accepted: GPUs that no other instance has");
  for (std::size_t i = 0; i < instances.size(); ++i) {
    InstanceSpec& instance = instances[i];
    if (written[i].gpus) continue;
    const std::uint32_t ranks = instance.mapping.ranks();
    const std::optional<std::uint32_t> first = free.place(instance.group, ranks, written[i].placement);
    const platforms::GroupSpec& group = machine.groups[instance.group];
    if (!first)
      throw InputError(instance.where, instance.key + ": no " + std::to_string(ranks) +
                                           " free GPUs side by side in group " + group.name + " for instance " +
                                           instance.name + "; " + std::to_string(free.left(instance.group)) + " of " +
                                           std::to_string(group.servers * machine.board.gpus) +
                                           " are free; accepted: more servers (" + "machine.groups." + group.name +
                                           ".servers), or fewer instances");
    for (std::uint32_t rank = 0; rank < ranks; ++rank) instance.mapping.placement[rank] = *first + rank;
  }
}

/// The ranks of each replica are on one server or on several, in the same way.
void check_replicas_alike(const InstanceSpec& instance, const platforms::MachineSpec& machine) {
  const std::uint32_t tp = instance.mapping.tp;
  const auto same_server = [&](std::uint32_t rank) {
    const std::vector<std::uint32_t>& gpus = instance.mapping.placement;
    return gpus[rank] / machine.board.gpus == gpus[rank - 1] / machine.board.gpus;
  };
  for (std::uint32_t rank = tp; rank < tp * instance.mapping.dp; ++rank) {
    if (rank % tp == 0 || same_server(rank) == same_server(rank % tp)) continue;
    throw InputError(instance.where, instance.key + ": replica " + std::to_string(rank / tp) + " of instance " +
                                         instance.name + " has its " + std::to_string(tp) +
                                         " ranks on servers in another way than replica 0; accepted: GPUs of one "
                                         "server for each replica, or a tp that is a multiple of " +
                                         std::to_string(machine.board.gpus));
  }
}

/// Instances for all parts of requests, or some that prefill and some that decode, with names of their own.
void check_instances(const std::vector<InstanceSpec>& instances, const platforms::MachineSpec& machine,
                     const Source& source) {
  const auto count = [&](InstanceRole role) {
    return std::count_if(instances.begin(), instances.end(), [&](const InstanceSpec& i) { return i.role == role; });
  };
  const auto colocated = count(InstanceRole::colocated), prefill = count(InstanceRole::prefill),
             decode = count(InstanceRole::decode);
  if (prefill > 0 ? colocated + decode == 0 : decode > 0)
    refuse_workload(source, "instances",
                    std::to_string(colocated) + " colocated, " + std::to_string(prefill) + " prefill, " +
                        std::to_string(decode) +
                        " decode; accepted: at least one decode or colocated instance beside those that prefill, and "
                        "at least one prefill instance beside those that decode");
  std::set<std::string> names;
  std::vector<std::uint32_t> gpus;  // numbered over all groups
  for (const InstanceSpec& instance : instances) {
    check_replicas_alike(instance, machine);
    if (!names.insert(instance.name).second)
      throw InputError(place_of(source.root, instance.key + ".name"),
                       instance.key + ".name: " + in_quotes(instance.name) +
                           " is the name of another instance; accepted: a name of its own");
    std::uint32_t before = 0;
    for (std::uint32_t g = 0; g < instance.group; ++g) before += machine.groups[g].servers * machine.board.gpus;
    gpus.push_back(before);
  }
  check_groups_used(gpus, machine, source);
}

}  // namespace

Record<InstanceSection> instance_record() {
  using Section = InstanceSection;
  Record<Section> r;
  r.add("name", &Section::name, "name of the instance in outputs").required();
  r.choice("role", &Section::role, {"colocated", "prefill", "decode"},
           "colocated: prefill and decode in the same batches; prefill: prompts and first tokens; decode: the tokens "
           "after them, with KV cache from the instance that prefills. A colocated instance takes such answers, too");
  r.add("group", &Section::group, "group of the machine on whose GPUs the instance runs").fallback("the first group");
  r.add("engine", &Section::engine, "serving engine and version of this instance")
      .is_path(Field::Path::unless_name)
      .fallback("workload.engine");
  const auto member = [](auto of_mapping) { return within(&Section::mapping, of_mapping); };
  r.add("tp", member(&MappingSection::tp), "tensor-parallel ranks; must divide the attention heads")
      .range(1, kMostRanks)
      .fallback("1");
  r.add("pp", member(&MappingSection::pp), "pipeline stages; at most the number of layers")
      .range(1, kMostRanks)
      .fallback("1");
  r.add("dp", member(&MappingSection::dp),
        "attention replicas of tp ranks, each with requests and KV cache of its own; experts are dealt to the ranks of "
        "all. With pp 1")
      .range(1, kMostRanks);
  r.add("ep", &Section::ep,
        "expert-parallel ranks, which hold whole experts: as many as tp x dp; must divide the experts")
      .range(1, kMostRanks)
      .fallback("with dp: tp x dp; else tensor parallelism divides every expert");
  r.add("stage_layers", member(&MappingSection::stage_layers), "number of layers of each stage")
      .range(1, kMostLayers)
      .fallback("as even as possible; the engine's rule gives the remainder to some stages");
  r.add("count", &Section::count, "number of such instances, whose names get a number: name0, name1, ...")
      .range(1, kMostInstances);
  r.number_or(
       "gpus", "auto", &Section::gpus,
       "GPU of each rank p*tp+t within its group, of replica r r*tp+t; with count, of one instance after the other")
      .fallback("by `placement`");
  r.choice(
      "placement", &Section::placement, {"pack", "spread"},
      "free GPUs side by side, in one server if the instance fits into one. pack: the first ones; spread: those of the "
      "server with most free GPUs");
  r.add("kv_blocks", &Section::kv_blocks, "blocks of KV cache of a rank of this instance, one of them reserved")
      .range(2, kMostBlocks)
      .fallback("workload.kv_blocks");
  r.choice("kv_dtype", &Section::kv_dtype, {kDataTypeNames.begin(), kDataTypeNames.end()},
           "number format of this instance's KV cache; with a prefill instance, that of the instances that take its KV")
      .fallback("model.kv_dtype");
  r.later("scheduler", {}, scheduler_record().fields(), "settings of this instance only");
  r.later("speculation", {"none"}, speculation_fields(), "of this instance only; none: it has no drafts")
      .fallback("workload.speculation");
  return r;
}

Record<GraphSheet> graphs_record() {
  Record<GraphSheet> r;
  add_graphs(r);
  r.fallback_all("from the engine's sheet");
  return r;
}

std::vector<InstanceSpec> resolve_instances(const std::vector<InstanceSection>& written,
                                            const InstanceDefaults& defaults, const Setting& setting) {
  std::vector<InstanceSection> sections = written, sections_by_instance;
  if (sections.empty()) {
    sections.emplace_back();
    sections.back().name = setting.machine.groups.front().name;
  }
  std::vector<InstanceSpec> instances;
  for (std::size_t i = 0; i < sections.size(); ++i) {
    const std::string key = "workload.instances." + std::to_string(i);
    for (const InstanceSection& instance : counted(sections[i], key, setting.source)) {
      sections_by_instance.push_back(instance);
      instances.push_back(resolve_instance(instance, defaults, key, setting));
    }
  }
  place(sections_by_instance, instances, setting.machine);
  check_instances(instances, setting.machine, setting.source);
  std::stable_partition(instances.begin(), instances.end(),
                        [](const InstanceSpec& i) { return takes_prompts(i.role); });
  return instances;
}

}  // namespace railyard::scenario
