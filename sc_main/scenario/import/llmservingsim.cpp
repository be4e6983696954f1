#include "sc_main/scenario/import/llmservingsim.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <utility>

#include "sc_main/scenario/datasheets/datasheets.h"
#include "sc_main/scenario/import/cluster_file.h"
#include "sc_main/scenario/import/names.h"
#include "sc_main/scenario/model/config.h"
#include "sc_main/scenario/table/words.h"
#include "transformer/memory.h"

namespace railyard::scenario {

using transformer::ModelShape;
using transformer::Stage;

namespace {

constexpr std::size_t kLongestCluster = 1u << 20, kLongestConfig = 1u << 20;
constexpr double kGib = 1024.0 * 1024 * 1024;
const char* const kGroup = "gpus";

/// LLMServingSim's names of number formats.
const std::map<std::string, std::string> kDataTypes{
    {"float16", "fp16"}, {"bfloat16", "bf16"}, {"fp8", "fp8"}, {"int8", "int8"}};

NodePtr word(const std::string& text, const Origin& origin) {
  auto node = std::make_shared<Node>();
  node->kind = Node::Kind::scalar;
  node->origin = origin;
  node->text = text;
  return node;
}
NodePtr flag(bool value, const Origin& origin) { return word(value ? "true" : "false", origin); }
NodePtr number(std::uint64_t value, const Origin& origin) { return word(std::to_string(value), origin); }

/// Text from a user, which may look like a number.
NodePtr text(const std::string& value, const Origin& origin) {
  auto node = std::make_shared<Node>(*word(value, origin));
  node->is_quoted = true;
  return node;
}

NodePtr mapping(const Origin& origin, const std::vector<std::pair<std::string, NodePtr>>& members) {
  auto node = std::make_shared<Node>();
  node->kind = Node::Kind::mapping;
  node->origin = origin;
  for (const auto& [key, value] : members) node->entries.push_back({key, value->origin, value});
  return node;
}

NodePtr list(const NodePtr& item) {
  auto node = std::make_shared<Node>();
  node->kind = Node::Kind::sequence;
  node->origin = item->origin;
  node->items = {item};
  return node;
}

/// The settings of the command line as an instance would write them.
NodePtr settings_of(const std::vector<KeyOption>& options) {
  std::vector<std::pair<std::string, NodePtr>> members;
  for (const KeyOption& option : options) members.emplace_back(option.key, word(option.text, option.origin()));
  return mapping({}, members);
}

/// An instance with the settings of the command line, and the places of its values.
class Instance : public ClusterInstance {
 public:
  Instance(NodePtr written, std::string path, NodePtr settings)
      : written_(std::move(written)), settings_(std::move(settings)), path_(std::move(path)) {
    const Fields& fields = cluster_instance_record().fields();
    read_fields(fields, static_cast<ClusterInstance*>(this), *settings_, "", true);
    read_fields(fields, static_cast<ClusterInstance*>(this), *written_, path_);
  }

  const std::string& path() const { return path_; }
  bool has(const std::string& key) const { return value_at(written_, key) != nullptr; }
  /// The place of a key: in the file, or of the option; of the instance, if the default applies.
  Origin place(const std::string& key) const {
    if (!has(key) && settings_->find(key)) return settings_->find(key)->origin;
    return place_of(written_, key);
  }
  [[noreturn]] void refuse(const std::string& key, const std::string& what) const {
    throw InputError(place(key), path_ + "." + key + ": " + what);
  }

 private:
  NodePtr written_, settings_;
  std::string path_;
};

void check_length(const NodePtr& root, const std::string& path, const std::string& count_key, std::uint64_t count,
                  const std::string& list_key, std::size_t length) {
  if (count == length) return;
  const std::string key = path + count_key;
  throw InputError(place_of(root, key), key + ": " + std::to_string(count) + ", but " + list_key + " has " +
                                            std::to_string(length) + "; the two must agree");
}

/// The only instance of the cluster.
Instance only_instance(const NodePtr& root, const NodePtr& settings) {
  Cluster cluster;
  cluster_record().read(cluster, *root, "");
  check_length(root, "", "num_nodes", cluster.num_nodes, "nodes", cluster.nodes.size());
  std::vector<std::string> paths;
  for (std::size_t n = 0; n < cluster.nodes.size(); ++n) {
    const ClusterNode& node = cluster.nodes[n];
    const std::string path = "nodes." + std::to_string(n) + ".";
    check_length(root, path, "num_instances", node.num_instances, "instances", node.instances.size());
    for (std::size_t i = 0; i < node.instances.size(); ++i) paths.push_back(path + "instances." + std::to_string(i));
  }
  if (paths.empty()) throw InputError(place_of(root, "nodes"), "nodes: no instance; accepted: one instance");
  Instance instance(value_at(root, paths.front()), paths.front(), settings);
  if (instance.pd_type)
    instance.refuse("pd_type", "separate instances for prefill and decode are not modelled here; accepted: null");
  if (paths.size() > 1)
    throw InputError(place_of(root, paths[1]),
                     paths[1] + ": a second instance; accepted: one instance with pd_type null");
  return instance;
}

struct Parallelism {
  std::uint32_t tp = 1, pp = 1;
};

Parallelism parallelism_of(const Instance& instance, const ModelShape& model) {
  Parallelism result;
  result.pp = instance.pp_size;
  if (result.pp > model.layers)
    instance.refuse("pp_size", std::to_string(result.pp) + " is more than the " + std::to_string(model.layers) +
                                   " layers of " + instance.model_name);
  const std::uint32_t npus = instance.num_npus.value_or(instance.tp_size.value_or(1) * result.pp);
  result.tp = instance.tp_size.value_or(npus / result.pp);
  if (npus != result.tp * result.pp)
    instance.refuse("num_npus", std::to_string(npus) + " is not tp_size x pp_size, " + std::to_string(result.tp) +
                                    " x " + std::to_string(result.pp));
  const std::uint32_t ep = instance.ep_size.value_or(1);
  if (ep > result.tp)
    instance.refuse(
        "ep_size", std::to_string(ep) + " is more than tp_size, " + std::to_string(result.tp) + ", without a dp_group");
  if (ep > 1) instance.refuse("ep_size", "expert parallelism is not modelled; accepted: 1");
  return result;
}

/// The model's longest context; 0: the config does not say.
std::uint32_t longest_context(const std::string& config, const Origin& where) {
  const NodePtr root = parse_json(read_file(config, where, "model_name", kLongestConfig), config);
  const NodePtr node = value_at(root, "max_position_embeddings");
  if (!node) return 0;
  Field tokens;
  tokens.range(1, 1e9);
  return static_cast<std::uint32_t>(read_integer(tokens, *node, "max_position_embeddings"));
}

/// LLMServingSim's weights of a rank: that of a stage with embeddings and output head, whichever stage it is
/// (memory_model.py, get_weight).
double weights_of_rank(const ModelShape& model, const Parallelism& parallel) {
  Stage with_head, embeddings;
  with_head.layers = model.layers / parallel.pp;
  with_head.last = true;
  embeddings.first = true;
  return static_cast<double>(transformer::rank_weight_bytes(model, with_head, parallel.tp) +
                             transformer::rank_weight_bytes(model, embeddings, parallel.tp));
}

std::uint32_t blocks_of(const Instance& instance, const ModelShape& model, const Parallelism& parallel) {
  Stage all;
  all.layers = model.layers;
  const double block_bytes = static_cast<double>(transformer::kv_bytes_per_token(model, all, 1) /
                                                 (parallel.tp * parallel.pp) * instance.block_size);
  const double weights = weights_of_rank(model, parallel);
  const double bytes = std::floor(instance.npu_mem.mem_size * kGib * instance.npu_mem.mem_util);
  const double blocks = std::floor((bytes - weights) / block_bytes);
  const auto gib = [](double value) { return number_text(std::round(value / kGib * 100) / 100) + " GiB"; };
  constexpr double kFewestBlocks = 2, kMostBlocks = 1e9;
  if (blocks < kFewestBlocks)
    instance.refuse("npu_mem.mem_size", number_text(instance.npu_mem.mem_size) + " GiB x mem_util " +
                                            number_text(instance.npu_mem.mem_util) +
                                            " has no memory for KV cache: " + gib(weights) + " of weights, and " +
                                            gib(weights + kFewestBlocks * block_bytes - bytes) +
                                            " are missing for two blocks");
  if (blocks > kMostBlocks)
    instance.refuse("npu_mem.mem_size", number_text(blocks) + " blocks; accepted: up to " + number_text(kMostBlocks));
  return static_cast<std::uint32_t>(blocks);
}

/// Memory of a rank with weights, KV cache and activations, which LLMServingSim does not count.
double bytes_of_rank(const ModelShape& model, const Parallelism& parallel, std::uint32_t blocks,
                     std::uint32_t block_tokens, std::uint32_t max_batched_tokens, std::uint32_t max_seqs) {
  double most = 0;
  const auto stages = transformer::stages_of(transformer::even_stage_layers(model.layers, parallel.pp));
  for (const Stage& stage : stages) {
    const Bytes fixed = transformer::rank_weight_bytes(model, stage, parallel.tp) +
                        transformer::activation_bytes(model, stage, parallel.tp, max_batched_tokens,
                                                      std::min(max_seqs, max_batched_tokens));
    const Bytes block = transformer::kv_bytes_per_token(model, stage, parallel.tp) * block_tokens;
    most = std::max(most, static_cast<double>(fixed) + static_cast<double>(block) * blocks);
  }
  return most;
}

/// Folder of a profile bundle below the root.
std::string profile_folder(const std::string& root, const Instance& instance, const ModelShape& model) {
  std::string variant(name_of(model.dtype));
  if (instance.kv_cache_dtype != "auto") variant += "-kv" + instance.kv_cache_dtype;
  return (std::filesystem::path(root) / instance.hardware / instance.model_name / variant).string();
}

void add_notes(std::vector<std::string>& notes, const std::string& file, const Instance& instance,
               const std::string& platform, const gpu::GpuDatasheet& gpu) {
  const auto note = [&](const std::string& keys, const std::string& instead) {
    notes.push_back(file + ": " + keys + ": not used; " + instead);
  };
  note("link_bw, link_latency", "links are those of " + platform);
  note("cpu_mem", "hosts are those of " + platform);
  note("npu_mem.mem_bw, npu_mem.mem_latency",
       "memory of " + gpu.name + " is that of its datasheet, " + number_text(gpu.hbm.gb_per_s) + " GB/s");
  if (instance.has("placement")) note("placement.kv_evict_loc", "evicted KV cache is computed again");
  if (instance.has("enable_local_offloading")) note("enable_local_offloading", "kernels read weights from GPU memory");
  if (instance.has("enable_block_copy")) note("enable_block_copy", "every layer is simulated");
}

}  // namespace

Origin KeyOption::origin() const {
  constexpr std::size_t kLongestOption = 120;
  return {printable(text.empty() ? option : option + " " + text, kLongestOption), 0, 0};
}

ImportedScenario import_llmservingsim(const LlmServingSimOptions& options, const std::string& platform) {
  const auto option = [](const char* name, const std::string& value) { return KeyOption{name, "", value}.origin(); };
  const std::string& file = options.cluster_config;
  const NodePtr root = parse_json(read_file(file, option("--cluster-config", file), "", kLongestCluster), file);
  const Instance instance = only_instance(root, settings_of(options.settings));

  const Origin model_place = instance.place("model_name"), gpu_place = instance.place("hardware");
  const std::string config =
      config_of_model(instance.model_name, options.models, model_place, instance.path() + ".model_name");
  const std::string dtype = instance.dtype.empty() ? "" : kDataTypes.at(instance.dtype);
  const std::string kv_dtype = instance.kv_cache_dtype == "auto" ? "" : instance.kv_cache_dtype;
  const ModelShape model = load_model(config, model_place, dtype, kv_dtype).shape;
  const Parallelism parallel = parallelism_of(instance, model);
  const gpu::GpuDatasheet gpu = load_gpu(
      {datasheet_of_hardware(instance.hardware, gpu_place, instance.path() + ".hardware"), "hardware", gpu_place});

  // The scheduler of LLMServingSim takes no batch that is longer than the model's context.
  const std::uint32_t context = longest_context(config, model_place);
  std::uint32_t max_batched_tokens = instance.max_num_batched_tokens;
  if (context > 0 && (max_batched_tokens == 0 || max_batched_tokens > context)) max_batched_tokens = context;
  if (max_batched_tokens == 0)
    instance.refuse("max_num_batched_tokens", "0 needs max_position_embeddings in " + in_quotes(config));
  const std::uint32_t max_seqs = instance.max_num_seqs == 0 ? max_batched_tokens : instance.max_num_seqs;
  const std::uint32_t blocks = blocks_of(instance, model, parallel);

  ImportedScenario result;
  add_notes(result.notes, file, instance, platform, gpu);

  const Origin whole = root->origin, instance_place = instance.place("");
  std::vector<std::pair<std::string, NodePtr>> model_keys{{"config", text(config, model_place)},
                                                          {"name", text(instance.model_name, model_place)}};
  if (!dtype.empty()) model_keys.emplace_back("dtype", word(dtype, instance.place("dtype")));
  if (!kv_dtype.empty()) model_keys.emplace_back("kv_dtype", word(kv_dtype, instance.place("kv_cache_dtype")));

  const std::uint32_t servers =
      static_cast<std::uint32_t>(ceil_div(parallel.tp * parallel.pp, load_board(platform).board.gpus));
  const NodePtr group = mapping(
      gpu_place, {{"servers", number(servers, instance.place("num_npus"))}, {"gpu", word(gpu.name, gpu_place)}});
  std::vector<std::pair<std::string, NodePtr>> machine_keys{{"groups", mapping(gpu_place, {{kGroup, group}})}};
  const double needed = bytes_of_rank(model, parallel, blocks, instance.block_size, max_batched_tokens, max_seqs);
  if (needed > gpu.hbm.visible_bytes()) {
    const std::string gb = number_text(std::ceil(needed * 1e-6) * 1e-3);
    const Origin place = instance.place("npu_mem.mem_size");
    machine_keys.emplace_back(
        "overrides",
        mapping(place, {{"gpu", mapping(place, {{"hbm", mapping(place, {{"visible_gb", word(gb, place)}})}})}}));
    result.notes.push_back(file + ": npu_mem.mem_size: " + std::to_string(blocks) +
                           " blocks, weights and activations need " + gb + " GB, more than the " +
                           number_text(gpu.hbm.visible_bytes() * 1e-9) + " GB of " + gpu.name +
                           "; the run assumes a GPU with that memory");
  }

  const auto copied = [&](const char* key, std::uint64_t value) { return number(value, instance.place(key)); };
  const auto copied_flag = [&](const char* key, bool value) { return flag(value, instance.place(key)); };
  const NodePtr scheduler = mapping(
      instance_place,
      {{"preset", word("vllm", instance_place)},
       {"max_batched_tokens", copied("max_num_batched_tokens", max_batched_tokens)},
       {"max_seqs", copied("max_num_seqs", max_seqs)},
       {"long_prefill_threshold_tokens", copied("long_prefill_token_threshold", instance.long_prefill_token_threshold)},
       {"block_tokens", copied("block_size", instance.block_size)},
       {"chunked_prefill", copied_flag("enable_chunked_prefill", instance.enable_chunked_prefill)},
       {"prefix_caching", copied_flag("enable_prefix_caching", instance.enable_prefix_caching)},
       {"reserve", word(instance.reserve_full_isl ? "sequence" : "chunk", instance.place("reserve_full_isl"))}});
  const NodePtr engine = mapping(instance_place, {{"name", text("instance0", instance_place)},
                                                  {"group", word(kGroup, instance_place)},
                                                  {"tp", copied("tp_size", parallel.tp)},
                                                  {"pp", copied("pp_size", parallel.pp)},
                                                  {"scheduler", scheduler}});

  const Origin dataset_place = option("--dataset", options.dataset);
  std::vector<std::pair<std::string, NodePtr>> request_keys{{"format", word("llmservingsim", dataset_place)},
                                                            {"file", text(options.dataset, dataset_place)}};
  if (!options.num_reqs.empty() && options.num_reqs != "0")
    request_keys.emplace_back("max_count", word(options.num_reqs, option("--num-reqs", options.num_reqs)));

  const auto plain = [&](const char* value) { return word(value, whole); };
  const Origin memory_place = instance.place("npu_mem");
  const NodePtr workload = mapping(whole, {{"kind", plain("serving")},
                                           {"requests", mapping(dataset_place, request_keys)},
                                           {"instances", list(engine)},
                                           {"memory_limit_ratio", number(1, memory_place)},
                                           {"engine_reserved_bytes", number(0, memory_place)},
                                           {"kv_blocks", number(blocks, memory_place)},
                                           {"cudagraph", mapping(whole, {{"mode", plain("none")}})},
                                           {"host", mapping(whole, {{"preset", plain("none")}})}});
  std::vector<std::pair<std::string, NodePtr>> keys{{"model", mapping(model_place, model_keys)},
                                                    {"machine", mapping(gpu_place, machine_keys)},
                                                    {"workload", workload}};
  if (!options.profile_root.empty()) {
    const Origin place = option("--profile-root", options.profile_root);
    const std::string folder = profile_folder(options.profile_root, instance, model);
    keys.emplace_back("compute", mapping(place, {{"profile", text(folder, place)}}));
  }
  result.root = mapping(whole, keys);
  return result;
}

}  // namespace railyard::scenario
