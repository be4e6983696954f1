// The workload's part of the parameter table, kind by kind.
#include <nlohmann/json.hpp>

#include "sc_main/scenario/datasheets/datasheets.h"
#include "sc_main/scenario/parameters.h"
#include "sc_main/scenario/table/lists.h"

namespace railyard::scenario {

using nlohmann::json;

namespace {

constexpr double kMostTokens = 1 << 24, kMostRanks = 1024, kMostLayers = 4096, kMostRequests = 1e6;
constexpr double kMostBytes = 16.0 * (1u << 30), kMostGpus = 1 << 20, kMostIterations = 10000;

std::vector<Record<RequestsSection>> request_forms() {
  Record<RequestsSection> fixed;
  fixed.add("count", &RequestsSection::count, "equal requests, all arriving at time zero").range(1, kMostRequests);
  fixed.add("prompt_tokens", &RequestsSection::prompt_tokens, "tokens in each prompt").range(1, kMostTokens).required();
  fixed.add("output_tokens", &RequestsSection::output_tokens, "tokens of each answer, the first of them prefill's")
      .range(1, kMostTokens);

  Record<RequestItem> item;
  item.add("arrival_s", &RequestItem::arrival_s, "arrival after the start of the run").range(0, kLongestRunSeconds);
  item.add("prompt_tokens", &RequestItem::prompt_tokens, "tokens in the prompt").range(1, kMostTokens).required();
  item.add("output_tokens", &RequestItem::output_tokens, "tokens of the answer, the first of them prefill's")
      .range(1, kMostTokens);
  Record<RequestsSection> list;
  list.list("list", &RequestsSection::list, item, "requests one by one").required();

  Record<RequestsSection> trace;
  trace
      .choice("format", &RequestsSection::format, {"azure", "mooncake"},
              "of the trace: Azure LLM inference CSV, or Mooncake JSONL")
      .required();
  trace.add("file", &RequestsSection::file, "the trace").is_path().required();
  trace.add("max_count", &RequestsSection::max_count, "take this many rows from the start")
      .range(1, kMostRequests)
      .fallback("all rows");
  trace.add("rate_scale", &RequestsSection::rate_scale, "multiplies the request rate").above(0, 1e6);
  return {fixed, list, trace};
}

/// How a model is split over a group. The decode side repeats prefill's split unless it says otherwise.
template <class Section>
Record<Section> mapping_record(bool is_decode) {
  using Number = std::optional<std::uint32_t> Section::*;
  using List = std::optional<std::vector<std::uint32_t>> Section::*;
  Record<Section> r;
  const auto number = [&](const char* key, Number member, const char* doc) {
    Field& field = r.add(key, member, doc).range(1, kMostRanks);
    is_decode ? field.fallback("as prefill") : field.required();
  };
  number("tp", static_cast<Number>(&MappingSection::tp), "tensor-parallel ranks; must divide the attention heads");
  number("pp", static_cast<Number>(&MappingSection::pp), "pipeline stages, at most the layers");
  r.add("stage_layers", static_cast<List>(&MappingSection::stage_layers), "layers of each stage, one per stage")
      .range(1, kMostLayers)
      .fallback("as even as possible, earlier stages taking the rest");
  return r;
}

json placement_schema() {
  const json gpus = {{"type", "array"}, {"items", {{"type", "integer"}, {"minimum", 0}}}};
  const json side = {{"anyOf", {json{{"const", "auto"}}, gpus}}};
  const json both = {
      {"type", "object"}, {"additionalProperties", false}, {"properties", {{"prefill", side}, {"decode", side}}}};
  return {{"anyOf", {json{{"const", "auto"}}, gpus, both}}};
}

void read_placement(PrefillSection& workload, const Node& node, const std::string& path) {
  static const Record<PlacementSection> record = [] {
    Record<PlacementSection> r;
    r.number_or("prefill", "auto", &PlacementSection::prefill, "GPU of rank p*tp+t");
    r.number_or("decode", "auto", &PlacementSection::decode, "GPU of rank p*tp+t");
    return r;
  }();
  if (node.kind == Node::Kind::mapping) {
    record.read(workload.placement, node, path);
  } else {
    const Field& prefill = record.fields().front();
    prefill.store(prefill, &workload.placement, node, path);
  }
}

/// What a kind that serves requests says of the engine's host.
Record<HostSection> host_record() {
  Record<HostSection> r;
  r.word("preset", &HostSection::preset, shipped_datasheets("hosts"),
         "constants of an engine's host software, from platforms/datasheets/hosts");
  r.add("async", &HostSection::async,
        "a step is prepared while the one before runs: it takes the longer of host and GPU, else their sum")
      .fallback("the preset's");
  const auto us = [&](const char* key, std::optional<double> HostSection::*member, const char* doc) {
    r.add(key, member, doc).range(0, kLongestHostUs).fallback("the preset's");
  };
  us("step_us", &HostSection::step_us, "to prepare a step: scheduler, inputs, sampling");
  us("sequence_us", &HostSection::sequence_us, "the same, more for each sequence of the step");
  us("layer_us", &HostSection::layer_us,
     "to launch a layer where kernels are launched one by one: prefill, and decode batches beyond 512");
  us("request_us", &HostSection::request_us, "from a request's arrival until it is queued: API server, tokenizer");
  us("token_us", &HostSection::token_us,
     "from the step that makes a token until the client has it: detokenizer, streaming");
  return r;
}

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
           "auto, a list of integers, or {prefill, decode} of these", placement_schema, read_placement)
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

// -- collective

/// A number of GPUs, or which ones.
void read_ranks(RanksSection& section, const Node& node, const std::string& path) {
  Field gpu;
  gpu.range(node.kind == Node::Kind::sequence ? 0 : 2, kMostGpus);
  if (node.kind != Node::Kind::sequence) {
    section.rank_count = static_cast<std::uint32_t>(read_integer(gpu, node, path));
  } else {
    section.ranks = read_integers(gpu, node, path);
  }
}

template <class Section>
void add_ranks(Record<Section>& r, const char* doc) {
  r.custom(
       "ranks", doc, "an integer, or a list of integers",
       [] {
         const json gpu = {{"type", "integer"}, {"minimum", 0}};
         return json{{"anyOf", {json{{"type", "integer"}, {"minimum", 2}}, list_schema(gpu)}}};
       },
       [](Section& section, const Node& node, const std::string& path) { read_ranks(section, node, path); })
      .fallback("every GPU");
  r.add("ranks_per_server", static_cast<std::optional<std::uint32_t> Section::*>(&RanksSection::ranks_per_server),
        "only the first so many GPUs of each server")
      .range(1, kMostGpus)
      .fallback("all of a server's");
}

template <class Section>
void add_sizes(Record<Section>& r) {
  using Number = std::uint64_t Section::*;
  r.add("min_bytes", static_cast<Number>(&SizesSection::min_bytes), "smallest size").range(1, kMostBytes);
  r.add("max_bytes", static_cast<Number>(&SizesSection::max_bytes), "sizes go up to this").range(1, kMostBytes);
  r.add("factor", static_cast<std::uint32_t Section::*>(&SizesSection::factor), "from one size to the next")
      .range(2, 1024);
  r.custom(
       "sizes_bytes", "these sizes, instead of min_bytes, max_bytes and factor", "list of integers",
       [] {
         return list_schema({{"type", "integer"}, {"minimum", 1}, {"maximum", static_cast<std::uint64_t>(kMostBytes)}});
       },
       [](Section& section, const Node& node, const std::string& path) {
         Field bytes;
         bytes.range(1, kMostBytes);
         section.sizes_bytes = read_list<std::uint64_t>(
             node, path, [&](const Node& n, const std::string& p) { return read_integer(bytes, n, p); });
       })
      .fallback("by min_bytes, max_bytes and factor");
}

Record<CollectiveSection> collective_record() {
  using workload::collective_bench::kElementTypeNames;
  Record<CollectiveSection> r;
  r.choice("op", &CollectiveSection::operation,
           {"all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all", "send_recv"},
           "the operation, as nccl-tests has it")
      .required();
  add_ranks(r, "how many GPUs take part, the first of the machine; or which, counted over all groups in order");
  add_sizes(r);
  r.choice("dtype", &CollectiveSection::dtype, {kElementTypeNames.begin(), kElementTypeNames.end()},
           "of the elements that are counted");
  r.choice("library", &CollectiveSection::library, {"nccl", "vllm", "sglang", "trtllm"},
           "whose rules choose: NCCL's tuner, or the custom all-reduce of a serving engine");
  r.choice("algorithm", &CollectiveSection::algorithm,
           {"auto", "ring", "tree", "nvls", "nvls_tree", "one_shot", "two_shot", "hierarchical", "direct", "pxn"},
           "auto: the library's choice");
  r.choice("protocol", &CollectiveSection::protocol, {"auto", "simple", "ll", "ll128"}, "auto: the library's choice");
  r.add("root", &CollectiveSection::root, "the rank that a broadcast starts from").range(0, kMostGpus - 1);
  r.add("both_directions", &CollectiveSection::both_directions,
        "of a forced ring, every other channel runs the other way round");
  r.add("in_graph", &CollectiveSection::in_graph, "launched from a CUDA graph, not one by one from the host");
  r.add("iterations", &CollectiveSection::iterations,
        "of each size, back to back; the model repeats itself, so one says all")
      .range(1, kMostIterations);
  r.custom(
       "skew_us", "how much later than the first each rank begins every size, by rank", "list of numbers",
       [] {
         return list_schema({{"type", "number"}, {"minimum", 0}, {"maximum", kLongestRunSeconds * 1e6}});
       },
       [](CollectiveSection& section, const Node& node, const std::string& path) {
         Field skew;
         skew.key = "skew_us";
         skew.range(0, kLongestRunSeconds * 1e6);
         section.skew_us = read_list<double>(
             node, path, [&](const Node& n, const std::string& p) { return read_number(skew, n, p); });
       })
      .fallback("none");
  return r;
}

// -- p2p

Record<PointToPointSection> p2p_record() {
  Record<PointToPointSection> r;
  r.choice("test", &PointToPointSection::test, {workload::p2p::kTestNames.begin(), workload::p2p::kTestNames.end()},
           "matrix: p2pBandwidthLatencyTest over every pair of GPUs; h2d, d2h: nvbandwidth between each GPU and its "
           "host; ib_write: "
           "perftest between two servers")
      .required();
  add_ranks(r, "as of a collective; ib_write: a list of two GPUs, by default the first ones of two servers");
  r.choice("engine", &PointToPointSection::engine, {"sm", "copy_engine"}, "matrix: who copies");
  r.add("p2p", &PointToPointSection::p2p,
        "matrix: false as if no GPU could reach a peer's memory, so that bytes bounce off the host's");
  r.choice("memory", &PointToPointSection::memory, {"host", "gpu"},
           "ib_write: whose memory is read and written; the host's is that of the GPU's socket");
  r.add("copy_bytes", &PointToPointSection::copy_bytes, "of a copy")
      .range(1, kMostBytes)
      .fallback("40000000; h2d, d2h 512 MiB");
  add_sizes(r);
  r.add("iterations", &PointToPointSection::iterations, "copies, writes of each queue pair, or ping-pongs")
      .range(1, 1e6)
      .fallback("1; ib_write_bw 1000, ib_write_lat 10");
  r.add("queue_pairs", &PointToPointSection::queue_pairs,
        "ib_write_bw: queue pairs, posted to in turn by one host thread")
      .range(1, 1024);
  r.add("tx_depth", &PointToPointSection::tx_depth, "ib_write_bw: writes of a queue pair under way").range(1, 65536);
  return r;
}

// -- overlap

Record<OverlapSection> overlap_record() {
  using namespace workload::overlap;
  constexpr double kMostElements = 1 << 24;
  Record<OverlapGemmSection> gemm;
  gemm.add("m", &OverlapGemmSection::m, "rows: tokens").range(1, kMostElements).required();
  gemm.add("n", &OverlapGemmSection::n, "columns of the result; all_gather_gemm: of all ranks")
      .range(1, kMostElements)
      .required();
  gemm.add("k", &OverlapGemmSection::k, "what is summed over; gemm_reduce_scatter: by all ranks")
      .range(1, kMostElements)
      .required();
  gemm.choice("dtype", &OverlapGemmSection::dtype, {kDataTypeNames.begin(), kDataTypeNames.end()}, "of operands");

  Record<OverlapSection> r;
  r.choice("op", &OverlapSection::operation, {kOperationNames.begin(), kOperationNames.end()},
           "all_gather_gemm: the rows of A are gathered first; gemm_reduce_scatter: the results are summed and "
           "scattered afterwards; "
           "gemm_all_reduce: other bytes are all-reduced meanwhile")
      .required();
  add_ranks(r, "how many GPUs take part, the first of the machine; or which, counted over all groups in order");
  r.nested("gemm", &OverlapSection::gemm, gemm, "the matrix product").required();
  r.add("collective_bytes", &OverlapSection::collective_bytes, "gemm_all_reduce: bytes that are reduced")
      .range(1, kMostBytes)
      .fallback("those of the result");
  const std::vector<std::string> words(kMethodNames.begin(), kMethodNames.end());
  r.custom(
       "methods",
       "how the two are run, one after another: each alone, serial, decomposed into products of one shard, fused into "
       "one kernel, or beside each other",
       "list of gemm, collective, serial, decomposed, fused, beside",
       [words] {
         return list_schema({{"enum", words}});
       },
       [words](OverlapSection& section, const Node& node, const std::string& path) {
         Field field;
         field.choices = words;
         section.methods = read_list<Method>(node, path, [&](const Node& n, const std::string& p) {
           return static_cast<Method>(read_choice(field, n, p));
         });
       })
      .fallback("all that the operation has");
  return r;
}

}  // namespace

void add_workload(Record<ScenarioFile>& table) {
  std::vector<Form<WorkloadSection>> kinds;
  kinds.push_back(form("disaggregated_prefill", &WorkloadSection::prefill, prefill_record()));
  kinds.push_back(form("collective", &WorkloadSection::collective, collective_record()));
  kinds.push_back(form("p2p", &WorkloadSection::p2p, p2p_record()));
  kinds.push_back(form("kernel", &WorkloadSection::kernel, kernel_record()));
  kinds.push_back(form("layer", &WorkloadSection::layer, layer_record()));
  kinds.push_back(form("overlap", &WorkloadSection::overlap, overlap_record()));
  Field& field = table.forms("workload", &ScenarioFile::workload, "kind", &WorkloadSection::kind, kinds, "what runs",
                             "what the machine does");
  field.later = {"serving", "training"};
  field.required();
}

}  // namespace railyard::scenario
