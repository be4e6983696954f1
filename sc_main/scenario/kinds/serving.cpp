// workload.kind: serving
#include <algorithm>
#include <set>
#include <utility>

#include "sc_main/scenario/datasheets/datasheets.h"
#include "sc_main/scenario/kinds/experts.h"
#include "sc_main/scenario/kinds/host.h"
#include "sc_main/scenario/kinds/instance_changes.h"
#include "sc_main/scenario/kinds/instance_placement.h"
#include "sc_main/scenario/kinds/kind.h"
#include "sc_main/scenario/kinds/kv_tiers.h"
#include "sc_main/scenario/kinds/mapping.h"
#include "sc_main/scenario/kinds/ranks_and_sizes.h"
#include "sc_main/scenario/kinds/router.h"
#include "sc_main/scenario/kinds/scheduler.h"
#include "sc_main/scenario/kinds/serving_requests.h"
#include "sc_main/scenario/kinds/speculation.h"
#include "sc_main/scenario/table/words.h"
#include "workload/inference/service/serving_spec.h"

namespace railyard::scenario {

using workload::GraphMode;
using workload::inference::DraftMethod;
using workload::inference::InstanceRole;
using workload::inference::InstanceSpec;
using workload::inference::KvBlocks;
using workload::inference::QueuePolicy;
using workload::inference::ServingSpec;

namespace {

constexpr double kMostBlocks = 1e9;

constexpr double kMostInstances = 4096;

struct InstanceSection {
  std::string name;
  InstanceRole role = InstanceRole::colocated;
  std::string group;  ///< "": the first group
  std::uint32_t count = 1;
  InstancePlacement placement = InstancePlacement::pack;
  MappingSection mapping;
  std::optional<std::uint32_t> ep;
  std::optional<std::vector<std::uint32_t>> gpus;
  std::optional<std::uint32_t> kv_blocks;
};

struct KvTransferSection : workload::inference::KvConnector {
  std::optional<workload::inference::HandoffGrain> mode;
  std::optional<std::string> connector;
};

struct ServingSection : ServingSpec {
  ServingRequestsSection written_requests;
  std::vector<InstanceSection> written_instances;
  std::string engine = kDefaultEngine;
  bool streams = true;
  std::optional<std::uint32_t> kv_blocks;
  KvTransferSection kv_transfer;
  ExpertsSection experts;
};

Record<InstanceSection> instance_record() {
  using Section = InstanceSection;
  Record<Section> r;
  r.add("name", &Section::name, "name of the instance in outputs").required();
  r.choice("role", &Section::role, {"colocated", "prefill", "decode"},
           "colocated: prefill and decode in the same batches; prefill: prompts and first tokens; decode: the tokens "
           "after them, with KV cache from the instance that prefills. A colocated instance takes such answers, too");
  r.add("group", &Section::group, "group of the machine on whose GPUs the instance runs").fallback("the first group");
  const auto member = [](auto of_mapping) { return within(&Section::mapping, of_mapping); };
  r.add("tp", member(&MappingSection::tp), "tensor-parallel ranks; must divide the attention heads")
      .range(1, kMostRanks)
      .fallback("1");
  r.add("pp", member(&MappingSection::pp), "pipeline stages; at most the number of layers")
      .range(1, kMostRanks)
      .fallback("1");
  r.add("dp", member(&MappingSection::dp),
        "attention replicas, each with requests and KV cache of its own; experts are dealt to all of them. With tp 1 "
        "and "
        "pp 1")
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
  r.number_or("gpus", "auto", &Section::gpus,
              "GPU of each rank p*tp+t within its group; with count, of one instance after the other")
      .fallback("by `placement`");
  r.choice(
      "placement", &Section::placement, {"pack", "spread"},
      "free GPUs side by side, in one server if the instance fits into one. pack: the first ones; spread: those of the "
      "server with most free GPUs");
  r.add("kv_blocks", &Section::kv_blocks, "blocks of KV cache of a rank of this instance, one of them reserved")
      .range(2, kMostBlocks)
      .fallback("workload.kv_blocks");
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

Record<KvTransferSection> kv_transfer_record() {
  using Section = KvTransferSection;
  Record<Section> r;
  r.choice(
       "mode", &Section::mode, words_of(workload::inference::kKvTransferModeNames),
       "pull: the decode instance takes memory after the prompt and fetches the KV; push: it takes memory before the "
       "prompt, and KV is sent when it is complete for a layer, a chunk or the prompt")
      .fallback("from the engine's sheet: vLLM, TensorRT-LLM: pull; SGLang: push_per_chunk");
  r.add("connector", &Section::connector,
        "who moves it: datasheet of its descriptors and their cost, shipped or a file. none: bytes alone")
      .is_path(Field::Path::unless_name)
      .fallback("from the engine's sheet; none with host: none");
  const Record<workload::inference::KvConnector> sheet = connector_record();
  for (const Field& field : sheet.fields()) r.adopt(field).fallback("from the connector's sheet");
  return r;
}

/// The connector's sheet, and what the scenario says instead.
workload::inference::KvConnector resolve_connector(const KvTransferSection& written, const std::string& of_engine,
                                                   const Source& source) {
  const std::string path = "workload.kv_transfer";
  workload::inference::KvConnector connector = load_connector(
      {written.connector.value_or(of_engine), path + ".connector", place_of(source.root, path + ".connector")});
  const Record<workload::inference::KvConnector> sheet = connector_record();
  for (const Field& field : sheet.fields())
    if (const NodePtr value = value_at(source.root, path + "." + field.key))
      field.store(field, &connector, *value, path + "." + field.key);
  return connector;
}

Record<ServingSection> serving_record() {
  using Section = ServingSection;
  Record<Section> r;
  r.variants("requests", &Section::written_requests, serving_request_forms(),
             "the requests: drawn from distributions, a list, or a trace")
      .required();
  r.list("instances", &Section::written_instances, instance_record(),
         "serving engines; by default one on the first group, with tp 1 and pp 1");
  r.add("engine", &Section::engine,
        "serving engine and version: datasheet of its scheduler, host, CUDA graphs, kernels and collectives, shipped "
        "or a "
        "file. none: no host, for closed forms")
      .is_path(Field::Path::unless_name);
  r.later("router", words_of(workload::inference::kRouterPolicyNames), router_record().fields(),
          "how instances are chosen for a request: the word of a policy, or a mapping")
      .fallback("fixed if requests name instances, or there is no choice; else round_robin");
  r.later("scheduler", {}, scheduler_record().fields(), "continuous batching");
  r.later(
       "speculation", {"none"}, speculation_fields(),
       "speculative decoding: a step of a request that decodes also verifies drafts, and gives as many tokens more as "
       "are right")
      .fallback("none");
  const auto memory = [](auto of_memory) { return within(&ServingSpec::memory, of_memory); };
  using Memory = workload::inference::KvMemory;
  r.add("memory_limit_ratio", memory(&Memory::memory_limit_ratio),
        "largest share of the memory visible to CUDA that the engine fills")
      .above(0, 1);
  r.add("engine_reserved_bytes", memory(&Memory::engine_reserved_bytes),
        "memory of the engine beside weights, activations and KV cache: CUDA context, workspaces")
      .range(0, 1e12);
  r.add("kv_blocks", &Section::kv_blocks, "blocks of KV cache of a rank, including one reserved block")
      .range(2, kMostBlocks)
      .fallback("as many as memory holds");
  r.later("cudagraph", {}, graphs_record().fields(), "CUDA graphs: captured batches are padded to the next size");
  r.later("host", {"none"}, host_record().fields(), kHostDoc);
  r.add(
      "stream", &Section::streams,
      "clients get each token when it is made; false: whole answers, as in offline runs, which saves the host time of "
      "handing out tokens where the preset has it");
  r.add("client_us", &ServingSpec::client_us,
        "time of the client (load generator) for a request, before the API server has it; part of its latencies")
      .range(0, kLongestHostUs);
  r.choice("pp_send", &ServingSpec::pp_send, {"shard", "full"},
           "what a rank sends to the next stage. shard: 1/tp of the activation, gathered there; full: the whole "
           "activation");
  r.nested("kv_transfer", &Section::kv_transfer, kv_transfer_record(),
           "with prefill and decode instances, how KV cache gets from one to the other");
  r.nested("experts", &Section::experts, experts_record(), "routed experts of instances with ep");
  r.nested("kv_tiers", &Section::kv_tiers, kv_tiers_record(), "copies of KV cache outside of the GPUs");
  Record<workload::inference::Slo> slo;
  slo.add("ttft_s", &workload::inference::Slo::ttft_s, "largest time to the first token")
      .above(0, 1e6)
      .fallback("none");
  slo.add("tpot_s", &workload::inference::Slo::tpot_s, "largest time per output token").above(0, 1e6).fallback("none");
  r.nested("slo", &Section::slo, slo, "service level objectives, for goodput");
  return r;
}

std::uint32_t group_of(const InstanceSection& written, const platforms::MachineSpec& machine, const std::string& key,
                       const Source& source) {
  if (written.group.empty()) return 0;
  std::vector<std::string> names;
  for (std::uint32_t g = 0; g < machine.groups.size(); ++g) {
    if (machine.groups[g].name == written.group) return g;
    names.push_back(machine.groups[g].name);
  }
  throw InputError(place_of(source.root, key + ".group"),
                   key + ".group: no group " + in_quotes(written.group) + suggestion(written.group, names));
}

void check_replicas(const InstanceSpec& spec, const std::string& key, const Source& source) {
  const auto refuse = [&](const std::string& what, const std::string& accepted) {
    throw InputError(place_of(source.root, key + ".dp"), key + ".dp: " + std::to_string(spec.mapping.dp) + " with " +
                                                             what + " is not modelled; accepted: " + accepted);
  };
  if (spec.mapping.dp == 1) return;
  if (spec.mapping.tp > 1) refuse("tp " + std::to_string(spec.mapping.tp), "tp 1");
  if (spec.mapping.pp > 1) refuse("pp " + std::to_string(spec.mapping.pp), "pp 1");
  if (spec.role != InstanceRole::colocated) refuse("a role", "role: colocated");
  if (value_at(source.root, "workload.kv_tiers")) refuse("workload.kv_tiers", "none");
}

InstanceSpec resolve_instance(const InstanceSection& written, const ServingSection& common, const EngineSheet& engine,
                              bool async_host, const std::string& key, const Setting& setting) {
  InstanceSpec spec;
  spec.name = written.name;
  spec.key = key;
  spec.where = place_of(setting.source.root, key);
  spec.role = written.role;
  spec.group = group_of(written, setting.machine, key, setting.source);
  const platforms::GroupSpec& group = setting.machine.groups[spec.group];
  spec.engine = engine;
  spec.rules = engine.rules;
  spec.mapping = resolve_mapping(written.mapping, nullptr, {key, group.name, key + ".gpus", spec.rules.extra_layers},
                                 written.gpus, setting.model, setting.machine, setting.source);
  spec.mapping.profile = load_profile(setting.compute, setting.model, spec.mapping.tp, setting.source);
  check_replicas(spec, key, setting.source);
  spec.mapping.experts =
      resolve_expert_ranks(written.ep, common.experts, spec.mapping, setting.model, key, setting.source);
  const std::string blocks_key = (written.kv_blocks ? key : "workload") + ".kv_blocks";
  if (const std::optional<std::uint32_t> blocks = written.kv_blocks ? written.kv_blocks : common.kv_blocks)
    spec.kv_blocks = KvBlocks{*blocks, blocks_key, place_of(setting.source.root, blocks_key)};
  resolve_speculation(spec, key, setting);
  const bool needs_tokens = spec.speculation && spec.speculation->method == DraftMethod::ngram;
  spec.scheduler =
      resolve_scheduler({*engine.scheduler, group.gpu, async_host && !needs_tokens, setting.served.context_tokens},
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
                                                 machine.groups[instances[i].group].name + " is in two instances");
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

/// Connectors join blocks of the decode instance from whole blocks of the prefill instance.
void check_blocks(const std::vector<InstanceSpec>& instances, const Source& source) {
  for (const InstanceSpec& from : instances)
    for (const InstanceSpec& to : instances) {
      if (!hands_over(from.role, to.role)) continue;
      if (to.scheduler.block_tokens % from.scheduler.block_tokens == 0) continue;
      refuse_workload(source, "instances",
                      "blocks of " + std::to_string(to.scheduler.block_tokens) + " tokens in " + to.name +
                          " cannot be joined from blocks of " + std::to_string(from.scheduler.block_tokens) + " in " +
                          from.name + "; accepted: a multiple of the prefill instance's");
    }
}

/// Without chunks a batch must hold all that a request computes at once: its prompt, and what it has generated when it
/// starts again after a preemption.
void check_whole_prompts(const ServingRequests& requests, const workload::inference::SchedulerSpec& scheduler) {
  const bool starts_again = scheduler.reserve != workload::inference::Reserve::full_output;
  const std::optional<ServingRequests::Longest>& longest = starts_again ? requests.prompt_and_output : requests.prompt;
  if (scheduler.chunked_prefill || !longest || longest->tokens <= scheduler.max_batched_tokens) return;
  throw InputError(longest->where,
                   "workload.requests: " + std::to_string(longest->tokens) + " tokens of a prompt" +
                       (starts_again ? " and its answer" : "") +
                       " do not fit into a batch, and chunked_prefill is false; accepted: up to max_batched_tokens, " +
                       std::to_string(scheduler.max_batched_tokens));
}

void check_priorities(const ServingRequests& requests, const std::vector<InstanceSpec>& instances) {
  const auto has_policy = [](const InstanceSpec& i) { return i.scheduler.policy == QueuePolicy::priority; };
  if (!requests.priority || std::any_of(instances.begin(), instances.end(), has_policy)) return;
  throw InputError(requests.priority->where,
                   requests.priority->key + ": does not apply to policy: fcfs; accepted with policy: priority");
}

/// A request is at most as long as the engine allows. Drawn lengths without a bound are checked when requests arrive.
void check_context(const ServingRequests& requests, const InstanceSpec& instance, std::uint32_t context_tokens) {
  const std::uint64_t most = instance.scheduler.max_model_len;
  const std::optional<ServingRequests::Longest>& longest = requests.prompt_and_output;
  if (most == 0 || !longest || longest->tokens <= most) return;
  throw InputError(longest->where, "workload.requests: a request of " + std::to_string(longest->tokens) +
                                       " tokens, prompt and answer, is longer than max_model_len, " +
                                       std::to_string(most) +
                                       (most == context_tokens ? " by the model's config.json" : "") +
                                       "; accepted: up to " + std::to_string(most));
}

GraphSheet resolve_graphs(const GraphSheet& sheet, const Source& source) {
  GraphSheet graphs = sheet;
  const std::string path = "workload.cudagraph";
  if (const NodePtr written = value_at(source.root, path)) graphs_record().read(graphs, *written, path);
  return graphs;
}

ServingSpec resolve(const ServingSection& written, const Setting& setting) {
  ServingSpec spec = written;
  const EngineSheet engine =
      load_serving_engine({written.engine, "workload.engine", place_of(setting.source.root, "workload.engine")});
  spec.host = resolve_host(*engine.host, setting.machine.board.cpu, setting.source, written.streams);
  const GraphSheet graphs = resolve_graphs(engine.cudagraph, setting.source);
  spec.cudagraph = graphs;
  if (spec.cudagraph.mode != GraphMode::none) spec.memory.engine_reserved_bytes += graphs.reserved_bytes;
  std::vector<InstanceSection> sections = written.written_instances, instances;
  if (sections.empty()) {
    sections.emplace_back();
    sections.back().name = setting.machine.groups.front().name;
  }
  for (std::size_t i = 0; i < sections.size(); ++i) {
    const std::string key = "workload.instances." + std::to_string(i);
    for (const InstanceSection& instance : counted(sections[i], key, setting.source)) {
      instances.push_back(instance);
      spec.instances.push_back(resolve_instance(instance, written, engine, spec.host.async, key, setting));
    }
  }
  place(instances, spec.instances, setting.machine);
  check_instances(spec.instances, setting.machine, setting.source);
  std::stable_partition(spec.instances.begin(), spec.instances.end(),
                        [](const InstanceSpec& i) { return takes_prompts(i.role); });
  const bool hands_over = std::any_of(spec.instances.begin(), spec.instances.end(),
                                      [](const InstanceSpec& i) { return i.role == InstanceRole::prefill; });
  if (!hands_over && value_at(setting.source.root, "workload.kv_transfer"))
    refuse_workload(setting.source, "kv_transfer", "there is no prefill instance; accepted with prefill instances");
  InstanceNames names;
  for (const InstanceSpec& instance : spec.instances) {
    if (takes_prompts(instance.role)) names.prompts.push_back(instance.name);
    if (hands_over && takes_answers(instance.role)) names.answers.push_back(instance.name);
  }
  const std::vector<RequestItem>& list = written.written_requests.list;
  const auto names_instance = [](const RequestItem& item) { return item.instance || item.decode_instance; };
  spec.router = resolve_router({!names.answers.empty(), names.prompts.size() > 1 || names.answers.size() > 1,
                                std::any_of(list.begin(), list.end(), names_instance)},
                               setting.source);
  spec.seed = setting.machine.seed;
  const bool is_fixed = spec.router.policy == RouterPolicy::fixed || spec.router.decode == RouterPolicy::fixed;
  const ServingRequests requests =
      resolve_serving_requests(written.written_requests, names, is_fixed, setting.machine.seed, setting.source);
  check_contents(spec.router, requests.has_contents, setting.source);
  spec.requests = requests.make_source;
  spec.has_sessions = requests.has_sessions;
  spec.longest = requests.prompt_and_output;
  const workload::inference::ServingRules& rules = spec.instances.back().rules;
  spec.handoff = written.kv_transfer.mode.value_or(rules.handoff);
  spec.connector =
      resolve_connector(written.kv_transfer, spec.host.name == "none" ? "none" : rules.connector, setting.source);
  check_kv_tiers(spec.kv_tiers, spec.instances, setting.source);
  check_experts_used(std::any_of(written.written_instances.begin(), written.written_instances.end(),
                                 [](const InstanceSection& i) { return i.ep || i.mapping.dp > 1; }),
                     setting.source);
  if (hands_over) {
    check_blocks(spec.instances, setting.source);
    spec.first_token = rules.first_token;
    for (InstanceSpec& instance : spec.instances)
      instance.scheduler.computes_first_token = spec.first_token == workload::inference::FirstToken::decode_step;
  }
  spec.changes = resolve_instance_changes(setting.instance_events, spec.instances, setting.source);
  check_priorities(requests, spec.instances);
  for (const InstanceSpec& instance : spec.instances) {
    check_context(requests, instance, setting.served.context_tokens);
    check_whole_prompts(requests, instance.scheduler);
  }
  return spec;
}

}  // namespace

Kind serving_kind() {
  Kind kind = kind_of("serving", serving_record(), resolve);
  kind.runs_model = true;
  kind.fidelity = transport::Fidelity::automatic;
  return kind;
}

}  // namespace railyard::scenario
