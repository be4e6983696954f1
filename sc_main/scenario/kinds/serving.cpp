// workload.kind: serving
#include <algorithm>
#include <utility>

#include "sc_main/scenario/datasheets/connector_record.h"
#include "sc_main/scenario/datasheets/datasheets.h"
#include "sc_main/scenario/kinds/experts.h"
#include "sc_main/scenario/kinds/host.h"
#include "sc_main/scenario/kinds/instance_changes.h"
#include "sc_main/scenario/kinds/instances.h"
#include "sc_main/scenario/kinds/kind.h"
#include "sc_main/scenario/kinds/kv_tiers.h"
#include "sc_main/scenario/kinds/router.h"
#include "sc_main/scenario/kinds/scheduler.h"
#include "sc_main/scenario/kinds/serving_requests.h"
#include "sc_main/scenario/kinds/speculation.h"
#include "sc_main/scenario/table/words.h"
#include "workload/inference/service/serving_spec.h"

namespace railyard::scenario {

using workload::inference::InstanceRole;
using workload::inference::InstanceSpec;
using workload::inference::QueuePolicy;
using workload::inference::ServingSpec;

namespace {

struct KvTransferSection : workload::inference::KvConnector {
  std::optional<workload::inference::HandoffGrain> mode;
  std::optional<std::string> connector;
  workload::inference::FirstContact first_contact = workload::inference::FirstContact::before;
};

struct ServingSection : ServingSpec {
  ServingRequestsSection written_requests;
  std::vector<InstanceSection> written_instances;
  std::string engine = kDefaultEngine;
  bool streams = true;
  std::optional<std::uint32_t> kv_blocks;
  workload::inference::KvMemory memory;
  KvTransferSection kv_transfer;
  ExpertsSection experts;
};

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
  r.choice("first_contact", &Section::first_contact, words_of(workload::inference::kFirstContactNames),
           "when instances exchange metadata. before: they have met before the first request, as after a warm-up; "
           "in_run: the first "
           "KV that goes from one to the other waits for their handshake. An instance that joins has met nobody");
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
  const auto memory = [](auto of_memory) { return within(&Section::memory, of_memory); };
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

/// No engine converts KV on its way: vLLM and SGLang refuse the other side at the first contact (NixlConnector's compatibility hash, with
/// cache_dtype; sglang/srt/disaggregation/common/conn.py, try_ensure_parallel_info), TensorRT-LLM when it asks what its formatter
/// supports (cpp/tensorrt_llm/batch_manager/cacheFormatter.cpp, inquireSupport).
void check_formats(const InstanceSpec& from, const InstanceSpec& to, const Setting& setting) {
  const DataType given = model_of(setting.model, from).kv_dtype, taken = model_of(setting.model, to).kv_dtype;
  if (given == taken) return;
  const InstanceSpec& written = to.kv_dtype ? to : from;
  throw InputError(place_of(setting.source.root, written.key + ".kv_dtype"),
                   written.key + ".kv_dtype: " + from.name + " gives KV in " + std::string(name_of(given)) + ", and " +
                       to.name + " keeps " + std::string(name_of(taken)) +
                       "; no engine converts KV between two instances; accepted: the same format in both");
}

/// Instances that hand KV over have the rules of one engine. Connectors join blocks of the decode instance from whole blocks of the
/// prefill instance.
void check_handovers(const std::vector<InstanceSpec>& instances, const Setting& setting) {
  const Source& source = setting.source;
  for (const InstanceSpec& from : instances)
    for (const InstanceSpec& to : instances) {
      if (!hands_over(from.role, to.role)) continue;
      if (!from.rules.hands_over_as(to.rules))
        throw InputError(place_of(source.root, to.key + ".engine"),
                         to.key + ".engine: " + to.engine.name + " takes KV otherwise than " + from.engine.name +
                             " of instance " + from.name + " gives it; accepted: engines with the same kv_transfer");
      check_formats(from, to, setting);
      if (to.scheduler.block_tokens % from.scheduler.block_tokens == 0) continue;
      refuse_workload(source, "instances",
                      "blocks of " + std::to_string(to.scheduler.block_tokens) + " tokens in " + to.name +
                          " cannot be joined from blocks of " + std::to_string(from.scheduler.block_tokens) + " in " +
                          from.name + "; accepted: a multiple of the prefill instance's");
    }
}

void check_first_contact(const ServingSpec& spec, const Source& source) {
  if (spec.first_contact == workload::inference::FirstContact::before) return;
  if (spec.connector.metadata_us > 0 || spec.connector.prepare_us > 0) return;
  refuse_workload(
      source, "kv_transfer.first_contact",
      "in_run has no effect: this connector has no metadata_us or prepare_us; accepted with a connector that "
      "has, such as nixl");
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
  const bool is_bounded = requests.prompt_and_output.has_value();
  const std::optional<ServingRequests::Longest>& longest = is_bounded ? requests.prompt_and_output : requests.prompt;
  if (most == 0 || !longest || longest->tokens <= most) return;
  throw InputError(longest->where, "workload.requests: a " + std::string(is_bounded ? "request" : "prompt") + " of " +
                                       std::to_string(longest->tokens) + " tokens" +
                                       (is_bounded ? ", prompt and answer," : "") + " is longer than max_model_len, " +
                                       std::to_string(most) +
                                       (most == context_tokens ? " by the model's config.json" : "") +
                                       "; accepted: up to " + std::to_string(most));
}

ServingSpec resolve_serving(const ServingSection& written, const Setting& setting) {
  ServingSpec spec = written;
  InstanceDefaults defaults{written.engine, written.kv_blocks, written.memory, written.streams, written.experts};
  spec.instances = resolve_instances(written.written_instances, defaults, setting);
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
  spec.has_leaves = requests.has_leaves;
  spec.longest = requests.prompt_and_output;
  const InstanceSpec& taker = spec.instances.back();
  spec.handoff = written.kv_transfer.mode.value_or(taker.rules.handoff);
  spec.connector = resolve_connector(written.kv_transfer, taker.host.name == "none" ? "none" : taker.rules.connector,
                                     setting.source);
  spec.first_contact = written.kv_transfer.first_contact;
  check_first_contact(spec, setting.source);
  check_kv_tiers(spec.kv_tiers, spec.instances, setting.machine.board.gpus, setting.source);
  check_experts_used(std::any_of(written.written_instances.begin(), written.written_instances.end(),
                                 [](const InstanceSection& i) { return i.ep || i.mapping.dp > 1; }),
                     setting.source);
  if (hands_over) {
    check_handovers(spec.instances, setting);
    spec.first_token = taker.rules.first_token;
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
  Kind kind = kind_of("serving", serving_record(), resolve_serving);
  kind.runs_model = true;
  kind.fidelity = transport::Fidelity::automatic;
  return kind;
}

}  // namespace railyard::scenario
