#include "sc_main/scenario/import/llmservingsim.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>

#include "sc_main/scenario/datasheets/datasheets.h"
#include "sc_main/scenario/import/cluster_links.h"
#include "sc_main/scenario/import/instance.h"
#include "sc_main/scenario/import/kv_blocks.h"
#include "sc_main/scenario/import/names.h"
#include "sc_main/scenario/model/config.h"
#include "sc_main/scenario/table/tree.h"
#include "sc_main/scenario/table/words.h"

namespace railyard::scenario {

using transformer::ModelShape;

namespace {

constexpr std::size_t kLongestJson = 1u << 20;

/// LLMServingSim's names of number formats.
const std::map<std::string, std::string> kDataTypes{
    {"float16", "fp16"}, {"bfloat16", "bf16"}, {"fp8", "fp8"}, {"int8", "int8"}};

Origin option_origin(const char* option, const std::string& text) { return KeyOption{option, "", text}.origin(); }

NodePtr read_cluster(const std::string& file) {
  return parse_json(read_file(file, option_origin("--cluster-config", file), "", kLongestJson), file);
}

/// The settings of the command line, as an instance would write them.
NodePtr settings_of(const std::vector<KeyOption>& options) {
  Members members;
  for (const KeyOption& option : options) members.emplace_back(option.key, word(option.text, option.origin()));
  return mapping({}, members);
}

/// The model's longest context; 0: its config does not say.
std::uint32_t longest_context(const std::string& config, const Origin& where) {
  const NodePtr root = parse_json(read_file(config, where, "model_name", kLongestJson), config);
  const NodePtr node = value_at(root, "max_position_embeddings");
  if (!node) return 0;
  Field tokens;
  tokens.range(1, 1e9);
  return static_cast<std::uint32_t>(read_integer(tokens, *node, "max_position_embeddings"));
}

/// 0 is no limit. No batch is longer than the model's context, and no more requests run than a batch has tokens.
BatchLimits limits_of(const PlacedInstance& instance, const std::string& config) {
  const std::uint32_t context = longest_context(config, instance.place("model_name"));
  BatchLimits limits{instance.max_num_batched_tokens, instance.max_num_seqs};
  if (context > 0 && (limits.max_batched_tokens == 0 || limits.max_batched_tokens > context))
    limits.max_batched_tokens = context;
  if (limits.max_batched_tokens == 0)
    instance.refuse("max_num_batched_tokens", "0 needs max_position_embeddings in " + in_quotes(config));
  if (limits.max_seqs == 0) limits.max_seqs = limits.max_batched_tokens;
  if (limits.max_seqs > limits.max_batched_tokens)
    instance.refuse(instance.is_set("max_num_batched_tokens") ? "max_num_batched_tokens" : "max_num_seqs",
                    std::to_string(limits.max_seqs) + " requests, and batches of " +
                        std::to_string(limits.max_batched_tokens) +
                        " tokens; accepted: max_num_seqs up to max_num_batched_tokens");
  return limits;
}

/// An instance with what follows from its keys.
struct Engine {
  Engine(const PlacedInstance& written, const ModelShape& model, const std::string& config)
      : instance(written),
        parallel(parallelism_of(instance, model)),
        gpu(load_gpu({datasheet_of_hardware(instance.hardware, gpu_place(), instance.path() + ".hardware"), "hardware",
                      gpu_place()})),
        limits(limits_of(instance, config)),
        blocks(kv_blocks(instance, model, parallel)) {}

  Origin gpu_place() const { return instance.place("hardware"); }
  std::string role() const {
    return !instance.pd_type ? "colocated" : *instance.pd_type == PdType::prefill ? "prefill" : "decode";
  }

  PlacedInstance instance;
  Parallelism parallel;
  gpu::GpuDatasheet gpu;
  BatchLimits limits;
  std::uint32_t blocks;
  std::size_t group = 0;  ///< of Import::groups_
  GpuRange gpus;          ///< of the group
};

/// GPUs of one kind in one node.
struct Group {
  std::string name;
  std::uint32_t gpus = 0;
};

class Import {
 public:
  Import(const LlmServingSimOptions& options, const std::string& platform)
      : options_(options),
        platform_(platform),
        root_(read_cluster(options.cluster_config)),
        instances_(instances_of(root_, settings_of(options.settings))),
        first_(instances_.front()),
        model_place_(first_.place("model_name")),
        config_(config_of_model(first_.model_name, options.models, model_place_, first_.path() + ".model_name")),
        dtype_(first_.dtype.empty() ? "" : kDataTypes.at(first_.dtype)),
        kv_dtype_(first_.kv_cache_dtype == "auto" ? "" : first_.kv_cache_dtype),
        model_(load_model(config_, model_place_, dtype_, kv_dtype_).shape) {
    for (const PlacedInstance& instance : instances_) engines_.emplace_back(instance, model_, config_);
    place();
  }

  /// Instances with the same GPU on the same node share servers, one after the other.
  void place() {
    std::map<std::pair<std::string, std::string>, std::size_t> numbers;  // by node and GPU
    for (Engine& engine : engines_) {
      engine.group = numbers.try_emplace({engine.instance.node(), engine.gpu.name}, groups_.size()).first->second;
      if (engine.group == groups_.size()) groups_.emplace_back();
      engine.gpus = {groups_[engine.group].gpus, engine.parallel.gpus()};
      groups_[engine.group].gpus += engine.gpus.count;
    }
    const bool is_pair = groups_.size() == 2 && engines_.size() == 2 && engines_.back().instance.pd_type;
    for (std::size_t g = 0; g < groups_.size(); ++g)
      groups_[g].name = groups_.size() == 1 ? "gpus" : is_pair ? engines_[g].role() : "gpus_" + letters(g);
  }
  /// a, b, ..., z, aa, ab, ...: names of groups do not end with digits.
  static std::string letters(std::size_t number) {
    constexpr std::size_t kLetters = 26;
    const std::string last(1, static_cast<char>('a' + number % kLetters));
    return number < kLetters ? last : letters(number / kLetters - 1) + last;
  }

  ImportedScenario scenario() {
    add_notes();
    Members keys{{"model", model()}, {"machine", machine()}, {"workload", workload()}};
    if (!options_.profile_root.empty()) keys.emplace_back("compute", compute());
    return {mapping(root_->origin, keys), notes_};
  }

 private:
  void note(const std::string& keys, const std::string& instead) {
    notes_.push_back(options_.cluster_config + ": " + keys + ": " + instead);
  }

  bool any_has(const char* key) const {
    return std::any_of(instances_.begin(), instances_.end(), [&](const PlacedInstance& i) { return i.has(key); });
  }

  void add_notes() {
    add_notes_on_links();
    note("cpu_mem", "not used; hosts are those of " + platform_);
    std::string memories;
    std::set<std::string> gpus;
    for (const Engine& engine : engines_)
      if (gpus.insert(engine.gpu.name).second) memories += (memories.empty() ? "" : ", ") + memory_text(engine.gpu);
    note("npu_mem.mem_bw, npu_mem.mem_latency", "not used; memory is that of the datasheet: " + memories);
    if (any_has("placement")) note("placement.kv_evict_loc", "not used; evicted KV cache is computed again");
    if (any_has("enable_local_offloading"))
      note("enable_local_offloading", "not used; kernels read weights from GPU memory");
    if (any_has("enable_block_copy")) note("enable_block_copy", "not used; every layer is simulated");
  }
  /// Which GPUs exchange bytes, and what lies between them: on a machine with PCIe this decides times.
  void add_notes_on_links() {
    const platforms::MachineSpec board = load_board(platform_);
    if (options_.links_as_given) {
      std::uint64_t servers = 0;
      for (const Group& group : groups_) servers += ceil_div(group.gpus, board.board.gpus);
      if (servers > 1)
        throw InputError(option_origin("--links", "as-given"), "needs all GPUs in one server; these instances take " +
                                                                   std::to_string(servers) + " servers of " +
                                                                   platform_);
      note("link_bw, link_latency",
           "as given, between any two GPUs; NCCL's rules choose how collectives cross them, and its steps remain");
      return;
    }
    note("link_bw, link_latency", "not used; links are those of " + platform_ + " (--links as-given uses them)");
    for (std::size_t i = 0; i < engines_.size(); ++i)
      if (engines_[i].gpus.count > 1)
        note_on_path("instance" + std::to_string(i), engines_[i].gpus, engines_[i].gpu, board,
                     "; workload.instances." + std::to_string(i) + ".gpus takes others");
    if (!engines_.back().instance.pd_type) return;
    if (groups_.size() == 1)
      note_on_path("KV cache", {0, groups_.front().gpus}, engines_.front().gpu, board, "");
    else
      notes_.push_back(options_.cluster_config +
                       ": KV cache: the instances are in different servers, joined by the network");
  }
  void note_on_path(const std::string& what, const GpuRange& gpus, const gpu::GpuDatasheet& gpu,
                    const platforms::MachineSpec& board, const std::string& more) {
    note(what, "GPUs " + std::to_string(gpus.first) + " to " + std::to_string(gpus.first + gpus.count - 1) + ", " +
                   path_between(gpus, board, gpu) + more);
  }
  static std::string memory_text(const gpu::GpuDatasheet& gpu) {
    return gpu.name + ", " + number_text(gpu.hbm.gb_per_s) + " GB/s";
  }

  NodePtr model() const {
    Members keys{{"config", text(config_, model_place_)}, {"name", text(first_.model_name, model_place_)}};
    if (!dtype_.empty()) keys.emplace_back("dtype", word(dtype_, first_.place("dtype")));
    if (!kv_dtype_.empty()) keys.emplace_back("kv_dtype", word(kv_dtype_, first_.place("kv_cache_dtype")));
    return mapping(model_place_, keys);
  }

  NodePtr machine() {
    Members groups;
    double visible = 0;
    const Engine* fullest = nullptr;  // of those that need more memory than their GPUs have
    for (const Engine& engine : engines_) {
      if (engine.group == groups.size()) groups.emplace_back(groups_[engine.group].name, group(engine));
      visible = std::max(visible, engine.gpu.hbm.visible_bytes());
      if (bytes_of(engine) <= engine.gpu.hbm.visible_bytes()) continue;
      if (fullest == nullptr || bytes_of(engine) > bytes_of(*fullest)) fullest = &engine;
    }
    const Origin place = engines_.front().gpu_place();
    Members keys{{"groups", mapping(place, groups)}};
    NodePtr overrides =
        fullest == nullptr ? nullptr : larger_memory(std::max(bytes_of(*fullest), visible), fullest->blocks);
    if (options_.links_as_given)
      overrides = joined(given_links(root_, load_board(platform_), engines_.front().gpu), overrides);
    if (overrides != nullptr) keys.emplace_back("overrides", overrides);
    return mapping(place, keys);
  }
  double bytes_of(const Engine& engine) const {
    return bytes_of_rank(engine.instance, model_, engine.parallel, engine.blocks, engine.limits);
  }

  /// The group of the engine.
  NodePtr group(const Engine& engine) const {
    const std::uint64_t servers = ceil_div(groups_[engine.group].gpus, load_board(platform_).board.gpus);
    return mapping(engine.gpu_place(), {{"servers", number(servers, engine.instance.place("num_npus"))},
                                        {"gpu", word(engine.gpu.name, engine.gpu_place())}});
  }

  /// LLMServingSim takes any memory, and leaves none for activations.
  NodePtr larger_memory(double bytes, std::uint32_t blocks) {
    const std::string gb = number_text(std::ceil(bytes * 1e-6) * 1e-3);
    note("npu_mem.mem_size", "weights, activations and " + std::to_string(blocks) +
                                 " KV blocks need more memory than the GPU has; the run gives it " + gb + " GB");
    const Origin place = first_.place("npu_mem.mem_size");
    const NodePtr hbm = mapping(place, {{"visible_gb", word(gb, place)}});
    return mapping(place, {{"gpu", mapping(place, {{"hbm", hbm}})}});
  }

  NodePtr workload() const {
    const Origin whole = root_->origin, memory = first_.place("npu_mem");
    std::vector<NodePtr> engines;
    for (const Engine& engine : engines_) engines.push_back(engine_node(engine, engines.size()));
    Members keys{{"kind", word("serving", whole)},
                 {"requests", requests()},
                 {"instances", list(whole, engines)},
                 {"memory_limit_ratio", number(1, memory)},
                 {"engine_reserved_bytes", number(0, memory)},
                 {"cudagraph", mapping(whole, {{"mode", word("none", whole)}})},
                 {"engine", word("none", whole)}};
    if (has_choice())
      keys.emplace_back("router", word(options_.routing_policy.empty() ? "least_load" : options_.routing_policy,
                                       option_origin("--request-routing-policy", options_.routing_policy)));
    return mapping(whole, keys);
  }

  /// Several instances for a part of requests.
  bool has_choice() const {
    const auto decoders = std::count_if(engines_.begin(), engines_.end(),
                                        [](const Engine& engine) { return engine.instance.pd_type == PdType::decode; });
    return decoders > 1 || static_cast<std::ptrdiff_t>(engines_.size()) - decoders > 1;
  }

  NodePtr requests() const {
    const Origin place = option_origin("--dataset", options_.dataset);
    Members keys{{"format", word("llmservingsim", place)}, {"file", text(options_.dataset, place)}};
    if (!options_.num_reqs.empty() && options_.num_reqs != "0")
      keys.emplace_back("max_count", word(options_.num_reqs, option_origin("--num-reqs", options_.num_reqs)));
    return mapping(place, keys);
  }

  NodePtr engine_node(const Engine& engine, std::size_t index) const {
    const PlacedInstance& instance = engine.instance;
    const Origin place = instance.place();
    std::vector<NodePtr> gpus;
    for (std::uint32_t g = 0; g < engine.gpus.count; ++g) gpus.push_back(number(engine.gpus.first + g, place));
    return mapping(place, {{"name", text("instance" + std::to_string(index), place)},
                           {"role", word(engine.role(), instance.place("pd_type"))},
                           {"group", word(groups_[engine.group].name, place)},
                           {"tp", number(engine.parallel.tp, instance.place("tp_size"))},
                           {"pp", number(engine.parallel.pp, instance.place("pp_size"))},
                           {"gpus", list(place, gpus)},
                           {"kv_blocks", number(engine.blocks, instance.place("npu_mem"))},
                           {"scheduler", scheduler(engine)}});
  }

  static NodePtr scheduler(const Engine& engine) {
    const PlacedInstance& i = engine.instance;
    const auto copied = [&](const char* key, std::uint64_t value) { return number(value, i.place(key)); };
    const auto copied_flag = [&](const char* key, bool value) { return flag(value, i.place(key)); };
    return mapping(
        i.place(),
        {{"max_batched_tokens", copied("max_num_batched_tokens", engine.limits.max_batched_tokens)},
         {"max_seqs", copied("max_num_seqs", engine.limits.max_seqs)},
         {"long_prefill_threshold_tokens", copied("long_prefill_token_threshold", i.long_prefill_token_threshold)},
         {"block_tokens", copied("block_size", i.block_size)},
         {"chunked_prefill", copied_flag("enable_chunked_prefill", i.enable_chunked_prefill)},
         {"prefix_caching", copied_flag("enable_prefix_caching", i.enable_prefix_caching)},
         {"reserve", word(i.reserve_full_isl ? "sequence" : "chunk", i.place("reserve_full_isl"))}});
  }

  /// LLMServingSim's layout of profiles: HARDWARE/MODEL/VARIANT.
  NodePtr compute() const {
    for (const PlacedInstance& other : instances_)
      if (other.hardware != first_.hardware)
        other.refuse("hardware", "differs from that of " + first_.path() + "; --profile-root takes one hardware");
    const std::string variant = std::string(name_of(model_.dtype)) + (kv_dtype_.empty() ? "" : "-kv" + kv_dtype_);
    const Origin place = option_origin("--profile-root", options_.profile_root);
    const auto folder = std::filesystem::path(options_.profile_root) / first_.hardware / first_.model_name / variant;
    return mapping(place, {{"profile", text(folder.string(), place)}});
  }

  const LlmServingSimOptions& options_;
  const std::string& platform_;
  NodePtr root_;
  std::vector<PlacedInstance> instances_;
  const PlacedInstance& first_;
  Origin model_place_;
  std::string config_, dtype_, kv_dtype_;
  ModelShape model_;
  std::vector<Engine> engines_;
  std::vector<Group> groups_;
  std::vector<std::string> notes_;
};

}  // namespace

Origin KeyOption::origin() const {
  constexpr std::size_t kLongestOption = 120;
  return {printable(text.empty() ? option : option + " " + text, kLongestOption), 0, 0};
}

ImportedScenario import_llmservingsim(const LlmServingSimOptions& options, const std::string& platform) {
  return Import(options, platform).scenario();
}

}  // namespace railyard::scenario
