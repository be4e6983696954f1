#include "sc_main/scenario/datasheets/engine_record.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "sc_main/scenario/table/lists.h"

namespace railyard::scenario {

using namespace collective;

namespace {

constexpr double kMostKib = 1 << 22, kMostRanks = 1024, kMostBlocks = 65536, kMostThreads = 1024;

std::vector<Record<SizeLimit>> size_limit_forms() {
  Record<SizeLimit> up_to, below;
  up_to.add("up_to_kib", &SizeLimit::up_to_kib, "the largest vector").range(1, kMostKib).required();
  below.add("below_kib", &SizeLimit::below_kib, "the smallest vector that is too large").range(1, kMostKib).required();
  return {up_to, below};
}

Record<RankLimits> rank_limits_record() {
  Record<RankLimits> r;
  r.add("ranks", &RankLimits::ranks, "numbers of ranks to which the limits apply").range(2, kMostRanks).required();
  r.variants("one_shot", &RankLimits::one_shot, size_limit_forms(), "vectors of the one-shot algorithm");
  r.variants("two_shot", &RankLimits::two_shot, size_limit_forms(),
             "larger vectors of the two-shot algorithm; NCCL reduces even larger ones");
  return r;
}

std::vector<Form<std::optional<PullKernel>>> kernel_forms() {
  Record<PullKernel> pull;
  pull.add("blocks", &PullKernel::blocks, "thread blocks").range(1, kMostBlocks).required();
  pull.add("threads", &PullKernel::threads, "threads of a block").range(1, kMostThreads).required();
  pull.add("read_bytes", &PullKernel::read_bytes, "bytes that a thread reads from each peer at once")
      .range(1, 4096)
      .required();
  return {{"pull", pull.fields(), [](std::optional<PullKernel>& kernel) { return &kernel.emplace(); }},
          {"push", {}, [](std::optional<PullKernel>& kernel) { return &kernel; }}};
}

template <class Kernel>
Field& add_architectures(Record<Kernel>& r) {
  return r.custom(
      "architectures", "GPUs of the kernel, by their datasheets' architecture", "list of words",
      [] {
        return list_schema({{"enum", gpu::kArchitectureNames}});
      },
      [](Kernel& kernel, const Node& node, const std::string& path) {
        for (const std::size_t architecture : read_choices(gpu::kArchitectureNames, node, path))
          kernel.architectures.push_back(static_cast<gpu::Architecture>(architecture));
      });
}

Record<gpu::BlockScaledProducts> block_scaled_record() {
  constexpr double kMostMultiple = 1024, kMostTokens = 1 << 20;
  using P = gpu::BlockScaledProducts;
  Record<P> r;
  add_architectures(r).required();
  r.choice("library", &P::library, {"cublas", "deepgemm"}, "whose kernel runs").required();
  r.add("columns", &P::columns, "n must be a multiple of this; other products run in cuBLAS").range(1, kMostMultiple);
  r.add("depth", &P::depth, "k must be a multiple of this; other products run in cuBLAS").range(1, kMostMultiple);
  r.add("experts_from_tokens", &P::experts_from_tokens,
        "routed experts run in it, too, in passes of at least so many tokens; 0: never")
      .range(0, kMostTokens);
  return r;
}

Record<AllReduceKernel> all_reduce_record() {
  Record<AllReduceKernel> r;
  add_architectures(r).fallback("all");
  r.choice("interconnect", &AllReduceKernel::interconnect, words_of(kInterconnectNames),
           "what joins the GPUs of a server")
      .required();
  r.forms("kernel", &AllReduceKernel::pull, "kind", kernel_forms(), "how the kernel moves data",
          "pull: members read from their peers, between exchanges of flags; push: members store to their peers")
      .required();
  r.list("limits", &AllReduceKernel::limits, rank_limits_record(), "size limits, by number of ranks").required();
  return r;
}

/// All fields are required: each value is in the sheet or in its base.
template <class T>
Record<T> complete(const Record<T>& record) {
  Record<T> r = record;
  r.require_all();
  return r;
}

Record<SchedulerSheet> scheduler_sheet_record() {
  constexpr double kMostGib = 1 << 16;
  Record<GpuLimits> limits;
  limits.add("memory_from_gib", &GpuLimits::memory_from_gib, "GPUs with at least so much memory, as CUDA sees it")
      .range(0, kMostGib);
  limits
      .custom(
          "except", "but not those whose names begin so", "list of words",
          [] {
            return list_schema({{"type", "string"}});
          },
          [](GpuLimits& one, const Node& node, const std::string& path) {
            one.except = read_list<std::string>(
                node, path, [](const Node& name, const std::string& where) { return read_text({}, name, where); });
          })
      .fallback("none");
  limits.add("max_batched_tokens", &GpuLimits::max_batched_tokens, "most tokens in a batch")
      .range(1, 1 << 20)
      .required();
  limits.add("max_seqs", &GpuLimits::max_seqs, "most requests that run at once").range(1, 1 << 20).required();

  Record<SchedulerSheet> r;
  add_scheduler_rules(r);
  r.list("limits", &SchedulerSheet::limits, limits, "limits of a batch, by GPU; the first ones that apply count");
  return complete(r);
}

Record<HostSheet> host_sheet_record() {
  Record<HostSheet> r;
  add_host_times(r);
  r.add("stream_us", &HostSheet::stream_us, "time per sequence of a step whose token the engine hands to a client")
      .range(0, kLongestHostUs);
  r.list("eager_layer", &HostSheet::eager_layer, eager_call_record("time per layer"),
         "time per layer whose kernels are launched one by one, by CPU; the first one that fits applies");
  return complete(r);
}

template <class M>
M EngineSheet::*of_sheet(M Engine::*member) {
  return member;
}

Record<EngineSheet> kernels_record() {
  Record<EngineSheet> r;
  r.choice("attention", &EngineSheet::attention, words_of(gpu::kAttentionLibraryNames), "attention kernels").required();
  r.list("block_scaled_products", of_sheet(&Engine::block_scaled_products), block_scaled_record(),
         "products of fp8 weights with a scale for each block of 128 x 128; the first one for the GPU applies")
      .fallback("[]: cuBLAS");
  return r;
}

Record<EngineSheet> collectives_record() {
  Record<EngineSheet> r;
  r.list("eager_call", of_sheet(&Engine::eager_call), eager_call_record("time of a call"),
         "host time of a collective outside a CUDA graph, by CPU; the first one that fits applies");
  r.list("kernels", of_sheet(&Engine::all_reduce), all_reduce_record(),
         "the engine's own all-reduce kernels inside a server; the first one that fits applies");
  return complete(r);
}

Record<EngineSheet> pipeline_record() {
  using namespace workload::inference;
  const auto rule = [](auto of_rules) { return within(&EngineSheet::rules, of_rules); };
  Record<EngineSheet> r;
  r.choice("extra_layers", rule(&ServingRules::extra_layers), words_of(kExtraLayersNames),
           "pipeline stages that have one layer more, if their number does not divide the layers");
  r.add("passes_residual", rule(&ServingRules::passes_residual),
        "a pipeline stage sends the residual beside the hidden state, in models that keep it apart");
  r.choice("sampled_ids", rule(&ServingRules::sampled_ids), words_of(kSampledIdsNames),
           "how sampled tokens get from the last stage to the first: through the host, or as a message between GPUs");
  return r;
}

Record<EngineSheet> speculation_record() {
  using namespace workload::inference;
  const auto rule = [](auto of_rules) {
    return within(within(&EngineSheet::rules, &ServingRules::speculation), of_rules);
  };
  Record<EngineSheet> r;
  r.custom(
      "methods", "who may propose drafts; []: no speculative decoding", "list of words",
      [] {
        return nlohmann::json{{"type", "array"}, {"items", {{"enum", kDraftMethodNames}}}};
      },
      [](EngineSheet& sheet, const Node& node, const std::string& path) {
        std::vector<DraftMethod>& methods = sheet.rules.speculation.methods;
        methods.clear();
        if (node.kind == Node::Kind::sequence && node.items.empty()) return;
        for (const std::size_t method : read_choices(kDraftMethodNames, node, path))
          methods.push_back(static_cast<DraftMethod>(method));
      });
  r.choice("rejected", rule(&SpeculationRules::rejected), words_of(kRejectedBlocksNames),
           "blocks of wrong drafts: keep: the request's next tokens use them; free: it gives them back");
  r.add("draft_graphs", rule(&SpeculationRules::draft_graphs),
        "a draft pass is a CUDA graph; else the host launches attention in each of its layers");
  r.add("ngram_sequence_us", rule(&SpeculationRules::ngram_sequence_us),
        "host time of a step for each sequence, to find drafts in its own tokens")
      .range(0, kLongestHostUs);
  return complete(r);
}

Record<EngineSheet> micro_batches_record() {
  using namespace workload::inference;
  const auto rule = [](auto of_rules) {
    return within(within(&EngineSheet::rules, &ServingRules::micro_batches), of_rules);
  };
  constexpr std::uint32_t kMostTokens = 1 << 24;
  Record<EngineSheet> r;
  r.choice(
      "turns", rule(&MicroBatchRules::turns), words_of(transformer::kMicroBatchTurnsNames),
      "when two micro-batches take turns. at_exchanges: at each exchange of tokens; in_stages: five in a layer, of "
      "batches of decodes only");
  r.add("decode_tokens", rule(&MicroBatchRules::decode_tokens),
        "least tokens of each attention replica in a batch of decodes; at_exchanges only")
      .range(0, kMostTokens);
  r.add("prompt_tokens", rule(&MicroBatchRules::prompt_tokens), "the same of a batch with prompts")
      .range(0, kMostTokens);
  return complete(r);
}

Record<EngineSheet> two_instances_record() {
  using namespace workload::inference;
  const auto rule = [](auto of_rules) { return within(&EngineSheet::rules, of_rules); };
  Record<EngineSheet> r;
  r.choice("handoff", rule(&ServingRules::handoff), words_of(kKvTransferModeNames),
           "default of workload.kv_transfer.mode");
  r.add("connector", rule(&ServingRules::connector), "default of workload.kv_transfer.connector");
  r.choice("first_token", rule(&ServingRules::first_token), words_of(kFirstTokenNames),
           "which instant brings the client the first token: the end of the prompt; the request's start in the decode "
           "instance, when its KV has arrived; the end of its first step there");
  return r;
}

Record<EngineSheet> replicas_record() {
  using namespace workload::inference;
  const auto rule = [](auto of_rules) { return within(&EngineSheet::rules, of_rules); };
  Record<EngineSheet> r;
  r.choice(
      "choice", rule(&ServingRules::replica), words_of(kReplicaRuleNames),
      "which attention replica takes a request. least_load: the lowest 4 x waiting + running; round_robin: one after "
      "the other; random; fewest_tokens: the lowest sum of prompts, among those with less than an even share of "
      "requests");
  r.choice("of_prompts", rule(&ServingRules::prefill_replica), words_of(kReplicaRuleNames),
           "the same of an instance that prefills for others");
  r.require_all();
  r.choice("sum", rule(&ServingRules::replica_sum), words_of(transformer::kReplicaSumNames),
           "how the tensor-parallel ranks of a replica add the results of attention in a layer with experts. "
           "all_reduce: each gets all tokens, and routes its share; reduce_scatter: each gets its share; one_rank: "
           "replicas have one rank")
      .fallback("all_reduce");
  return r;
}

Record<EngineSheet> kv_copies_record() {
  using workload::inference::KvCopies;
  using workload::inference::ServingRules;
  const auto copies = [](auto of_copies) {
    return within(within(&EngineSheet::rules, &ServingRules::kv_copies), of_copies);
  };
  Record<EngineSheet> r;
  r.add("blocks", copies(&KvCopies::blocks), "thread blocks of the kernel that copies; 0: copy engines copy")
      .range(0, 1024);
  r.add("threads", copies(&KvCopies::threads), "of a thread block").range(1, 1024);
  r.add("registers_per_thread", copies(&KvCopies::registers_per_thread), "of 4 bytes").range(1, 255);
  r.add("gb_per_s_per_block", copies(&KvCopies::gb_per_s_per_block),
        "of a thread block at most: its bytes in flight over the time to host memory and back")
      .above(0, 1e4);
  r.require_all();
  return r;
}

/// Whether a list without entries, which stands for all, or with them has all of another one.
template <class T>
bool covers(const std::vector<T>& all, const std::vector<T>& some) {
  const auto has = [&](const T& one) { return std::find(all.begin(), all.end(), one) != all.end(); };
  return all.empty() || (!some.empty() && std::all_of(some.begin(), some.end(), has));
}

bool covers(const EagerCall& one, const EagerCall& other) { return covers(one.cpus, other.cpus); }
bool covers(const GpuLimits& one, const GpuLimits& other) { return one.cover(other); }
bool covers(const gpu::BlockScaledProducts& one, const gpu::BlockScaledProducts& other) {
  return covers(one.architectures, other.architectures);
}
bool covers(const AllReduceKernel& one, const AllReduceKernel& other) {
  return one.interconnect == other.interconnect && covers(one.architectures, other.architectures);
}

template <class T>
void check_list(const std::vector<T>& list, const std::string& key, const NodePtr& root) {
  for (std::size_t late = 1; late < list.size(); ++late)
    for (std::size_t early = 0; early < late; ++early) {
      if (!covers(list[early], list[late])) continue;
      const std::string path = key + "." + std::to_string(late);
      throw InputError(place_of(root, path), path + ": never applies, because entry " + std::to_string(early) +
                                                 " applies wherever it would; entries are tried in order");
    }
}

}  // namespace

Record<collective::EagerCall> eager_call_record(const char* doc) {
  constexpr double kMostUs = 1e6;
  Record<collective::EagerCall> r;
  r.custom(
       "cpus", "CPUs of the servers, by the board's cpu", "list of words",
       [] {
         return list_schema({{"enum", kCpuNames}});
       },
       [](collective::EagerCall& call, const Node& node, const std::string& path) {
         for (const std::size_t cpu : read_choices(kCpuNames, node, path)) call.cpus.push_back(static_cast<Cpu>(cpu));
       })
      .fallback("all");
  r.add("us", &collective::EagerCall::us, doc).above(0, kMostUs).required();
  return r;
}

bool GpuLimits::apply_to(const gpu::GpuDatasheet& gpu) const {
  constexpr double kGib = 1024.0 * 1024 * 1024;
  const auto begins = [&](const std::string& beginning) { return gpu.name.rfind(beginning, 0) == 0; };
  return gpu.hbm.visible_bytes() >= memory_from_gib * kGib && std::none_of(except.begin(), except.end(), begins);
}

bool GpuLimits::cover(const GpuLimits& others) const {
  const auto excepted = [&](const std::string& mine) {
    return std::any_of(others.except.begin(), others.except.end(),
                       [&](const std::string& theirs) { return mine.rfind(theirs, 0) == 0; });
  };
  return memory_from_gib <= others.memory_from_gib && std::all_of(except.begin(), except.end(), excepted);
}

workload::inference::SchedulerSpec SchedulerSheet::on(const gpu::GpuDatasheet& gpu) const {
  workload::inference::SchedulerSpec spec = *this;
  const auto found = std::find_if(limits.begin(), limits.end(), [&](const GpuLimits& l) { return l.apply_to(gpu); });
  if (found == limits.end()) return spec;
  spec.max_batched_tokens = found->max_batched_tokens;
  spec.max_seqs = found->max_seqs;
  return spec;
}

workload::Host HostSheet::on(Cpu cpu, bool streams) const {
  workload::Host host = *this;
  host.eager_layer_us = collective::call_us(eager_layer, cpu);
  if (streams) host.sequence_us += stream_us;
  return host;
}

void check_reachable(const EngineSheet& sheet, const NodePtr& root) {
  check_list(sheet.eager_call, "all_reduce.eager_call", root);
  check_list(sheet.all_reduce, "all_reduce.kernels", root);
  check_list(sheet.block_scaled_products, "kernels.block_scaled_products", root);
  if (sheet.host) check_list(sheet.host->eager_layer, "host.eager_layer", root);
  if (!sheet.scheduler) return;
  const std::vector<GpuLimits>& limits = sheet.scheduler->limits;
  check_list(limits, "scheduler.limits", root);
  if (limits.empty() || limits.back().memory_from_gib > 0 || !limits.back().except.empty())
    throw InputError(place_of(root, "scheduler.limits"),
                     "scheduler.limits: no limits apply to some GPUs; the last entry must not have memory_from_gib or "
                     "except");
}

Record<EngineSheet> engine_record() {
  Record<EngineSheet> r;
  r.nested(
      "scheduler", [](auto& sheet) -> SchedulerSheet& { return sheet.scheduler.emplace(); }, scheduler_sheet_record(),
      "defaults of workload.scheduler");
  r.nested(
      "host", [](auto& sheet) -> HostSheet& { return sheet.host.emplace(); }, host_sheet_record(),
      "host software: defaults of workload.host");
  Record<GraphSheet> graphs;
  add_graphs(graphs);
  r.nested("cudagraph", &EngineSheet::cudagraph, complete(graphs), "defaults of workload.cudagraph");
  r.group("kernels", kernels_record(), "whose kernels run").required();
  r.group("pipeline", pipeline_record(), "how a pipeline divides layers and passes on its activations");
  r.group("speculation", speculation_record(), "speculative decoding").fallback("none is known of the engine");
  r.group("two_instances", two_instances_record(),
          "how an instance that prefills and one that decodes share a request");
  r.group("replicas", replicas_record(), "attention replicas").fallback("least_load");
  r.group("kv_copies", kv_copies_record(), "a kernel that copies KV between GPU and host memory")
      .fallback("copy engines copy");
  r.group("micro_batches", micro_batches_record(), "steps of two micro-batches (workload.experts.micro_batches)")
      .fallback("none");
  r.group("all_reduce", collectives_record(), "all-reduces beside NCCL's").required();
  return r;
}

}  // namespace railyard::scenario
