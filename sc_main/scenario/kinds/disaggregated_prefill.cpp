// workload.kind: disaggregated_prefill
#include <nlohmann/json.hpp>

#include "sc_main/scenario/datasheets/datasheets.h"
#include "sc_main/scenario/kinds/host.h"
#include "sc_main/scenario/kinds/kind.h"
#include "sc_main/scenario/kinds/mapping.h"
#include "sc_main/scenario/kinds/requests.h"
#include "workload/inference/service/prefill_spec.h"

namespace railyard::scenario {

using workload::inference::Mapping;
using workload::inference::PrefillSpec;

namespace {

struct PrefillSection : PrefillSpec {
  RequestsSection written_requests;
  PlacementSection placement;
  std::string written_engine = kDefaultEngine;
  MappingSection prefill_mapping, decode_mapping;
  std::optional<std::uint32_t> steps;  ///< nullopt: steps of the trace, or the default without a trace
};

Record<PrefillSection> prefill_record() {
  Record<PrefillSection> decode = mapping_record(&PrefillSection::decode_mapping, true);
  decode
      .number_or("steps", "trace", &PrefillSection::steps,
                 "decode steps of every request, independent of its output_tokens; trace: output_tokens - 1")
      .range(0, kMostTokens - 1)
      .fallback("trace if requests have output_tokens, else " + std::to_string(kDefaultSteps));
  decode.add("max_batch", &PrefillSection::max_batch, "largest number of requests in a decode batch").range(1, 65536);

  Record<PrefillSection> r;
  r.variants("requests", &PrefillSection::written_requests, request_forms(),
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
  r.add("engine", &PrefillSection::written_engine,
        "serving engine and version of both groups: datasheet of its host, kernels and collectives, shipped or a file. "
        "none: no host, for closed forms")
      .is_path(Field::Path::unless_name);
  r.later("host", {"none"}, host_record().fields(), kHostDoc);
  r.group("prefill", mapping_record(&PrefillSection::prefill_mapping, false),
          "how the model is split over the prefill group")
      .required();
  r.group("decode", decode, "how the model is split over the decode group");
  return r;
}

PrefillSpec resolve(const PrefillSection& written, const Setting& setting) {
  const auto& [model, machine, compute, source, served] = setting;
  PrefillSpec spec = written;
  const auto place = [&](const std::string& group) {
    const std::string placement = "workload.placement";
    const std::string own = placement + "." + group;
    return MappingPlace{"workload." + group, group, value_at(source.root, own) ? own : placement};
  };
  spec.prefill = resolve_mapping(written.prefill_mapping, nullptr, place("prefill"), written.placement.prefill, model,
                                 machine, source);
  spec.decode = resolve_mapping(written.decode_mapping, &spec.prefill, place("decode"), written.placement.decode, model,
                                machine, source);
  spec.requests = resolve_requests(written.written_requests, written.steps, source);
  for (const workload::inference::Request& request : spec.requests) {
    const std::uint64_t tokens = std::uint64_t{request.prompt_tokens} + request.output_tokens;
    if (served.context_tokens > 0 && tokens > served.context_tokens)
      refuse_workload(source, "requests",
                      "a request of " + std::to_string(tokens) + " tokens, prompt and answer, exceeds the context of " +
                          model.name + "; accepted: up to " + std::to_string(served.context_tokens));
  }
  const EngineSheet engine =
      load_serving_engine({written.written_engine, "workload.engine", place_of(source.root, "workload.engine")});
  spec.host = resolve_host(*engine.host, machine.board.cpu, source);
  spec.engine = engine;
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
