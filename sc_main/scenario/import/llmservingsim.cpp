#include "sc_main/scenario/import/llmservingsim.h"

#include <cmath>
#include <filesystem>
#include <map>

#include "sc_main/scenario/datasheets/datasheets.h"
#include "sc_main/scenario/import/instance.h"
#include "sc_main/scenario/import/kv_blocks.h"
#include "sc_main/scenario/import/names.h"
#include "sc_main/scenario/import/tree.h"
#include "sc_main/scenario/model/config.h"
#include "sc_main/scenario/table/words.h"

namespace railyard::scenario {

using transformer::ModelShape;

namespace {

constexpr std::size_t kLongestJson = 1u << 20;
const char* const kGroup = "gpus";

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

class Import {
 public:
  Import(const LlmServingSimOptions& options, const std::string& platform)
      : options_(options),
        platform_(platform),
        root_(read_cluster(options.cluster_config)),
        instance_(only_instance(root_, settings_of(options.settings))),
        model_place_(instance_.place("model_name")),
        gpu_place_(instance_.place("hardware")),
        config_(config_of_model(instance_.model_name, options.models, model_place_, instance_.path() + ".model_name")),
        dtype_(instance_.dtype.empty() ? "" : kDataTypes.at(instance_.dtype)),
        kv_dtype_(instance_.kv_cache_dtype == "auto" ? "" : instance_.kv_cache_dtype),
        model_(load_model(config_, model_place_, dtype_, kv_dtype_).shape),
        parallel_(parallelism_of(instance_, model_)),
        gpu_(load_gpu({datasheet_of_hardware(instance_.hardware, gpu_place_, instance_.path() + ".hardware"),
                       "hardware", gpu_place_})),
        limits_(limits_of(instance_, config_)),
        blocks_(kv_blocks(instance_, model_, parallel_)) {}

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

  void add_notes() {
    note("link_bw, link_latency", "not used; links are those of " + platform_);
    note("cpu_mem", "not used; hosts are those of " + platform_);
    note("npu_mem.mem_bw, npu_mem.mem_latency",
         "not used; memory of " + gpu_.name + " is that of its datasheet, " + number_text(gpu_.hbm.gb_per_s) + " GB/s");
    if (instance_.has("placement")) note("placement.kv_evict_loc", "not used; evicted KV cache is computed again");
    if (instance_.has("enable_local_offloading"))
      note("enable_local_offloading", "not used; kernels read weights from GPU memory");
    if (instance_.has("enable_block_copy")) note("enable_block_copy", "not used; every layer is simulated");
  }

  NodePtr model() const {
    Members keys{{"config", text(config_, model_place_)}, {"name", text(instance_.model_name, model_place_)}};
    if (!dtype_.empty()) keys.emplace_back("dtype", word(dtype_, instance_.place("dtype")));
    if (!kv_dtype_.empty()) keys.emplace_back("kv_dtype", word(kv_dtype_, instance_.place("kv_cache_dtype")));
    return mapping(model_place_, keys);
  }

  NodePtr machine() {
    const std::uint64_t servers = ceil_div(parallel_.gpus(), load_board(platform_).board.gpus);
    const NodePtr group = mapping(
        gpu_place_, {{"servers", number(servers, instance_.place("num_npus"))}, {"gpu", word(gpu_.name, gpu_place_)}});
    Members keys{{"groups", mapping(gpu_place_, {{kGroup, group}})}};
    const double needed = bytes_of_rank(instance_, model_, parallel_, blocks_, limits_);
    if (needed > gpu_.hbm.visible_bytes()) keys.emplace_back("overrides", larger_memory(needed));
    return mapping(gpu_place_, keys);
  }

  /// LLMServingSim takes any memory, and leaves none for activations.
  NodePtr larger_memory(double needed) {
    const std::string gb = number_text(std::ceil(needed * 1e-6) * 1e-3);
    note("npu_mem.mem_size", "a rank needs " + gb + " GB for weights, activations and " + std::to_string(blocks_) +
                                 " KV blocks; " + gpu_.name + " has " + number_text(gpu_.hbm.visible_bytes() * 1e-9) +
                                 " GB, and is given more");
    const Origin place = instance_.place("npu_mem.mem_size");
    const NodePtr hbm = mapping(place, {{"visible_gb", word(gb, place)}});
    return mapping(place, {{"gpu", mapping(place, {{"hbm", hbm}})}});
  }

  NodePtr workload() const {
    const Origin whole = root_->origin, memory = instance_.place("npu_mem");
    return mapping(whole, {{"kind", word("serving", whole)},
                           {"requests", requests()},
                           {"instances", list(engine())},
                           {"memory_limit_ratio", number(1, memory)},
                           {"engine_reserved_bytes", number(0, memory)},
                           {"kv_blocks", number(blocks_, memory)},
                           {"cudagraph", mapping(whole, {{"mode", word("none", whole)}})},
                           {"host", mapping(whole, {{"preset", word("none", whole)}})}});
  }

  NodePtr requests() const {
    const Origin place = option_origin("--dataset", options_.dataset);
    Members keys{{"format", word("llmservingsim", place)}, {"file", text(options_.dataset, place)}};
    if (!options_.num_reqs.empty() && options_.num_reqs != "0")
      keys.emplace_back("max_count", word(options_.num_reqs, option_origin("--num-reqs", options_.num_reqs)));
    return mapping(place, keys);
  }

  NodePtr engine() const {
    const auto copied = [&](const char* key, std::uint64_t value) { return number(value, instance_.place(key)); };
    const auto copied_flag = [&](const char* key, bool value) { return flag(value, instance_.place(key)); };
    const Origin place = instance_.place();
    const NodePtr scheduler = mapping(
        place,
        {{"preset", word("vllm", place)},
         {"max_batched_tokens", copied("max_num_batched_tokens", limits_.max_batched_tokens)},
         {"max_seqs", copied("max_num_seqs", limits_.max_seqs)},
         {"long_prefill_threshold_tokens",
          copied("long_prefill_token_threshold", instance_.long_prefill_token_threshold)},
         {"block_tokens", copied("block_size", instance_.block_size)},
         {"chunked_prefill", copied_flag("enable_chunked_prefill", instance_.enable_chunked_prefill)},
         {"prefix_caching", copied_flag("enable_prefix_caching", instance_.enable_prefix_caching)},
         {"reserve", word(instance_.reserve_full_isl ? "sequence" : "chunk", instance_.place("reserve_full_isl"))}});
    return mapping(place, {{"name", text("instance0", place)},
                           {"group", word(kGroup, place)},
                           {"tp", copied("tp_size", parallel_.tp)},
                           {"pp", copied("pp_size", parallel_.pp)},
                           {"scheduler", scheduler}});
  }

  /// LLMServingSim's layout of profiles: HARDWARE/MODEL/VARIANT.
  NodePtr compute() const {
    const std::string variant = std::string(name_of(model_.dtype)) + (kv_dtype_.empty() ? "" : "-kv" + kv_dtype_);
    const Origin place = option_origin("--profile-root", options_.profile_root);
    const auto folder =
        std::filesystem::path(options_.profile_root) / instance_.hardware / instance_.model_name / variant;
    return mapping(place, {{"profile", text(folder.string(), place)}});
  }

  const LlmServingSimOptions& options_;
  const std::string& platform_;
  NodePtr root_;
  PlacedInstance instance_;
  Origin model_place_, gpu_place_;
  std::string config_, dtype_, kv_dtype_;
  ModelShape model_;
  Parallelism parallel_;
  gpu::GpuDatasheet gpu_;
  BatchLimits limits_;
  std::uint32_t blocks_;
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
