// workload.kind: disaggregated_prefill: a preset of `serving` with an instance for prompts and one for answers, whose requests take
// memory on both before their prompts.
#include <algorithm>
#include <limits>
#include <memory>

#include <nlohmann/json.hpp>

#include "sc_main/scenario/datasheets/datasheets.h"
#include "sc_main/scenario/kinds/host.h"
#include "sc_main/scenario/kinds/kind.h"
#include "sc_main/scenario/kinds/mapping.h"
#include "sc_main/scenario/kinds/requests.h"
#include "workload/inference/service/serving_spec.h"

namespace railyard::scenario {

using workload::inference::HandoffGrain;
using workload::inference::InstanceRole;
using workload::inference::InstanceSpec;
using workload::inference::Mapping;
using workload::inference::NicRule;
using workload::inference::PpSend;
using workload::inference::Request;
using workload::inference::RequestList;
using workload::inference::ServingSpec;
using workload::inference::WholeSequencesSpec;

namespace {

struct PrefillSection {
  RequestsSection requests;
  std::uint32_t chunk_tokens = 256;
  double memory_limit_ratio = 0.9;
  NicRule nic_rule = NicRule::modulo;
  HandoffGrain handoff = HandoffGrain::per_chunk;
  PpSend pp_send = PpSend::shard;
  PlacementSection placement;
  std::string engine = kDefaultEngine;
  MappingSection prefill, decode;
  std::uint32_t max_batch = 32;        ///< of a decode step
  std::optional<std::uint32_t> steps;  ///< nullopt: steps of the trace, or the default without a trace
};

Record<PrefillSection> prefill_record() {
  Record<PrefillSection> decode = mapping_record(&PrefillSection::decode, true);
  decode
      .number_or("steps", "trace", &PrefillSection::steps,
                 "decode steps of every request, independent of its output_tokens; trace: output_tokens - 1")
      .range(0, kMostTokens - 1)
      .fallback("trace if requests have output_tokens, else " + std::to_string(kDefaultSteps));
  decode.add("max_batch", &PrefillSection::max_batch, "largest number of requests in a decode batch").range(1, 65536);

  Record<PrefillSection> r;
  r.variants("requests", &PrefillSection::requests, request_forms(),
             "the requests: a count of equal requests, a list, or a trace")
      .required();
  r.add("chunk_tokens", &PrefillSection::chunk_tokens, "tokens per prefill chunk").range(1, kMostTokens);
  r.add("memory_limit_ratio", &PrefillSection::memory_limit_ratio, "largest usable share of GPU memory").above(0, 1);
  r.custom("placement", "GPU of each rank p*tp+t within its group; a list without a key is for prefill",
           "auto, a list of integers, or {prefill, decode} with such values", placement_schema,
           [](PrefillSection& section, const Node& node, const std::string& path) {
             read_placement(section.placement, node, path);
           })
      .fallback("auto: rank r on GPU r");
  r.choice("nic_rule", &PrefillSection::nic_rule, {"modulo", "nearest"},
           "NIC of a rank's handoff. modulo: (p*tp+t) mod the NICs of its server (or tray), numbered by PCIe switch; "
           "nearest: a NIC at the PCIe switch of its GPU");
  r.choice("handoff", &PrefillSection::handoff, {"per_layer", "per_chunk", "at_end"},
           "when KV cache is sent to the decode group");
  r.choice(
      "pp_send", &PrefillSection::pp_send, {"shard", "full"},
      "what a rank sends to the next stage. shard: 1/tp of the activation, gathered there; full: the whole activation");
  r.add("engine", &PrefillSection::engine,
        "serving engine and version of both groups: datasheet of its host, kernels and collectives, shipped or a file. "
        "none: no host, for closed forms")
      .is_path(Field::Path::unless_name);
  r.later("host", {"none"}, host_record().fields(), kHostDoc);
  r.group("prefill", mapping_record(&PrefillSection::prefill, false), "how the model is split over the prefill group")
      .required();
  r.group("decode", decode, "how the model is split over the decode group");
  return r;
}

std::uint32_t group_named(const platforms::MachineSpec& machine, const std::string& name) {
  const auto found =
      std::find_if(machine.groups.begin(), machine.groups.end(), [&](const auto& group) { return group.name == name; });
  return static_cast<std::uint32_t>(found - machine.groups.begin());
}

/// An instance on the group of its name. @param otherwise  mapping for keys that are not written
InstanceSpec resolve_instance(const std::string& name, InstanceRole role, const MappingSection& written,
                              const Mapping* otherwise, const std::optional<std::vector<std::uint32_t>>& gpus,
                              const EngineSheet& engine, const Setting& setting) {
  const std::string placement = "workload.placement", own = placement + "." + name;
  InstanceSpec spec;
  spec.name = name;
  spec.key = "workload." + name;
  spec.where = place_of(setting.source.root, spec.key);
  spec.role = role;
  spec.group = group_named(setting.machine, name);
  spec.mapping =
      resolve_mapping(written, otherwise, {spec.key, name, value_at(setting.source.root, own) ? own : placement}, gpus,
                      setting.model, setting.machine, setting.source);
  spec.engine = engine;
  return spec;
}

std::vector<Request> requests_of(const PrefillSection& written, const Setting& setting) {
  std::vector<Request> requests = resolve_requests(written.requests, written.steps, setting.source);
  const std::uint64_t most = setting.served.context_tokens;
  for (const Request& request : requests) {
    const std::uint64_t tokens = std::uint64_t{request.prompt_tokens} + request.output_tokens;
    if (most > 0 && tokens > most)
      refuse_workload(setting.source, "requests",
                      "a request of " + std::to_string(tokens) + " tokens, prompt and answer, exceeds the context of " +
                          setting.model.name + "; accepted: up to " + std::to_string(most));
  }
  return requests;
}

ServingSpec resolve_disaggregated_prefill(const PrefillSection& written, const Setting& setting) {
  ServingSpec spec;
  InstanceSpec prefill, decode;
  const EngineSheet engine =
      load_serving_engine({written.engine, "workload.engine", place_of(setting.source.root, "workload.engine")});
  prefill = resolve_instance("prefill", InstanceRole::prefill, written.prefill, nullptr, written.placement.prefill,
                             engine, setting);
  decode = resolve_instance("decode", InstanceRole::decode, written.decode, &prefill.mapping, written.placement.decode,
                            engine, setting);
  const auto requests = std::make_shared<const std::vector<Request>>(requests_of(written, setting));
  spec.listed = requests;
  spec.requests = [=] { return std::make_unique<RequestList>(requests); };
  spec.names_requests = requests->size() > 1;
  for (InstanceSpec* instance : {&prefill, &decode}) {
    instance->host = resolve_host(*engine.host, setting.machine.board.cpu, setting.source);
    instance->cudagraph.mode = instance->host.cudagraph;
    instance->cudagraph.pads = false;
    instance->memory.memory_limit_ratio = written.memory_limit_ratio;
    instance->mapping.profile = load_profile(setting.compute, setting.model, instance->mapping.tp, setting.source);
  }

  WholeSequencesSpec& chunks = prefill.whole.emplace();
  chunks.max_batched_tokens = written.chunk_tokens;
  chunks.longest_pass = 0;
  for (const Request& request : *requests) chunks.longest_pass = std::max(chunks.longest_pass, request.prompt_tokens);
  chunks.max_seqs = std::numeric_limits<std::uint32_t>::max();
  chunks.prompts_in_turn = true;
  chunks.is_eager = true;
  WholeSequencesSpec& steps = decode.whole.emplace();
  steps.max_batched_tokens = steps.max_seqs = written.max_batch;
  steps.groups = decode.mapping.pp;
  steps.is_eager = steps.placeholders = decode.host.async;

  spec.instances = {prefill, decode};
  spec.pp_send = written.pp_send;
  spec.nic_rule = written.nic_rule;
  spec.handoff = written.handoff;
  return spec;
}

}  // namespace

Kind disaggregated_prefill_kind() {
  Kind kind = kind_of("disaggregated_prefill", prefill_record(), resolve_disaggregated_prefill);
  kind.preset_of = "serving";
  kind.groups = {"prefill", "decode"};
  kind.runs_model = true;
  return kind;
}

}  // namespace railyard::scenario
