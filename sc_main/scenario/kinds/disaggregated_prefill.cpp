// workload.kind: disaggregated_prefill
#include <nlohmann/json.hpp>

#include "sc_main/scenario/kinds/host.h"
#include "sc_main/scenario/kinds/kind.h"
#include "sc_main/scenario/kinds/mapping.h"
#include "sc_main/scenario/kinds/requests.h"

namespace railyard::scenario {

using workload::prefill::Mapping;
using workload::prefill::PrefillSpec;

namespace {

struct DecodeSection : MappingSection {
  std::optional<std::uint32_t> steps;  ///< nullopt: the trace's, or the default where there is none
  std::uint32_t max_batch = 32;
};

struct PrefillSection {
  RequestsSection requests;
  std::uint32_t chunk_tokens = 256;
  double memory_limit_ratio = 0.9;
  PlacementSection placement;
  workload::prefill::NicRule nic_rule = workload::prefill::NicRule::modulo;
  workload::prefill::Handoff handoff = workload::prefill::Handoff::per_chunk;
  workload::prefill::PpSend pp_send = workload::prefill::PpSend::shard;
  HostSection host;
  MappingSection prefill;
  DecodeSection decode;
};

Record<PrefillSection> prefill_record() {
  Record<DecodeSection> decode = mapping_record<DecodeSection>(true);
  decode
      .number_or("steps", "trace", &DecodeSection::steps,
                 "decode steps of every request, whatever its output_tokens say; trace: output_tokens - 1 of each")
      .range(0, kMostTokens - 1)
      .fallback("trace where requests give output_tokens, else " + std::to_string(kDefaultSteps));
  decode.add("max_batch", &DecodeSection::max_batch, "requests that decode together").range(1, 65536);

  Record<PrefillSection> r;
  r.variants("requests", &PrefillSection::requests, request_forms(),
             "the prompts: a count of equal ones, a list, or a trace")
      .required();
  r.add("chunk_tokens", &PrefillSection::chunk_tokens, "tokens per prefill chunk").range(1, kMostTokens);
  r.add("memory_limit_ratio", &PrefillSection::memory_limit_ratio, "share of GPU memory that may be used").above(0, 1);
  r.custom("placement", "GPU of each rank p*tp+t within its group; a list alone is prefill's",
           "auto, a list of integers, or {prefill, decode} of these", placement_schema,
           [](PrefillSection& section, const Node& node, const std::string& path) {
             read_placement(section.placement, node, path);
           })
      .fallback("auto: rank r on GPU r");
  r.choice(
      "nic_rule", &PrefillSection::nic_rule, {"modulo", "nearest"},
      "NIC of a rank's handoff: (p*tp+t) mod the NICs of its server (or tray), numbered PCIe switch by PCIe switch; or "
      "one at its GPU's switch");
  r.choice("handoff", &PrefillSection::handoff, {"per_layer", "per_chunk", "at_end"},
           "when KV cache leaves for the decode group");
  r.choice("pp_send", &PrefillSection::pp_send, {"shard", "full"},
           "what a rank sends to the next stage: its 1/tp, gathered there, or the whole activation");
  r.nested("host", &PrefillSection::host, host_record(), "host software of each group's engine");
  r.nested("prefill", &PrefillSection::prefill, mapping_record<MappingSection>(false),
           "how the model is split over the prefill group")
      .required();
  r.nested("decode", &PrefillSection::decode, decode, "how the model is split over the decode group");
  return r;
}

PrefillSpec resolve(const PrefillSection& written, const Setting& setting) {
  const auto& [model, machine, compute, source] = setting;
  PrefillSpec spec;
  spec.prefill =
      resolve_mapping(written.prefill, nullptr, "prefill", written.placement.prefill, model, machine, source);
  spec.decode =
      resolve_mapping(written.decode, &spec.prefill, "decode", written.placement.decode, model, machine, source);
  spec.requests = resolve_requests(written.requests, written.decode.steps, source);
  spec.chunk_tokens = written.chunk_tokens;
  spec.memory_limit_ratio = written.memory_limit_ratio;
  spec.nic_rule = written.nic_rule;
  spec.handoff = written.handoff;
  spec.pp_send = written.pp_send;
  spec.max_batch = written.decode.max_batch;
  spec.host = resolve_host(written.host);
  for (Mapping* mapping : {&spec.prefill, &spec.decode})
    mapping->profile = load_profile(compute, model, mapping->tp, source);
  return spec;
}

}  // namespace

Kind disaggregated_prefill_kind() {
  Kind kind = kind_of("disaggregated_prefill", prefill_record(), resolve);
  kind.groups = {"prefill", "decode"};
  kind.runs_model = true;
  return kind;
}

}  // namespace railyard::scenario
