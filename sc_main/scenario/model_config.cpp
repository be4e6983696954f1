#include "sc_main/scenario/model_config.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>

#include "sc_main/scenario/words.h"

namespace railyard::scenario {

namespace {

constexpr std::size_t kLongestConfig = 1u << 20;
constexpr double kLargestSize = 1 << 24;

DataType data_type(const std::string& name) {
  return static_cast<DataType>(std::find(kDataTypeNames.begin(), kDataTypeNames.end(), name) - kDataTypeNames.begin());
}

/// The mapping that holds the decoder's shape: multimodal configs nest it.
class Config {
 public:
  explicit Config(NodePtr root) : node_(std::move(root)) {
    if (node_->kind != Node::Kind::mapping)
      throw InputError(node_->origin, "expected an object, got " + node_->described());
    const Entry* nested = node_->find("text_config");
    if (nested && nested->value->kind == Node::Kind::mapping) {
      outer_ = node_;
      node_ = nested->value;
    }
  }

  /// The first of the spellings that is there with a value, or nullptr.
  const Entry* any_of(const std::vector<const char*>& keys) const {
    for (const NodePtr& node : {node_, outer_}) {
      for (const char* key : keys) {
        const Entry* entry = node ? node->find(key) : nullptr;
        if (entry && entry->value->kind != Node::Kind::null) return entry;
      }
    }
    return nullptr;
  }

  std::optional<std::uint32_t> size(const std::vector<const char*>& keys, double least = 1) const {
    const Entry* entry = any_of(keys);
    if (!entry) return std::nullopt;
    Field field;
    field.range(least, kLargestSize);
    return static_cast<std::uint32_t>(read_integer(field, *entry->value, entry->key));
  }

  std::uint32_t required_size(const char* key) const {
    if (const auto value = size({key})) return *value;
    throw InputError(node_->origin, std::string(key) + ": is required in a model's config.json");
  }

  bool flag(const char* key, bool otherwise) const {
    const Entry* entry = any_of({key});
    return entry ? read_boolean({}, *entry->value, key) : otherwise;
  }

  std::string text(const std::vector<const char*>& keys) const {
    const Entry* entry = any_of(keys);
    return entry ? read_text({}, *entry->value, entry->key) : "";
  }

  Origin place(const std::vector<const char*>& keys) const {
    const Entry* entry = any_of(keys);
    return entry ? entry->value->origin : node_->origin;
  }

 private:
  NodePtr node_, outer_;
};

DataType config_data_type(const Config& config) {
  static const std::map<std::string, DataType> kNames{{"bfloat16", DataType::bf16},
                                                      {"float16", DataType::fp16},
                                                      {"half", DataType::fp16},
                                                      {"float8_e4m3fn", DataType::fp8},
                                                      {"int8", DataType::int8}};
  const std::vector<const char*> keys{"torch_dtype", "dtype"};
  const std::string name = config.text(keys);
  if (name.empty()) return DataType::bf16;
  const auto known = kNames.find(name);
  if (known != kNames.end()) return known->second;
  throw InputError(config.place(keys), config.any_of(keys)->key + ": " + in_quotes(name) +
                                           " is not modelled; set model.dtype in the scenario to one of " +
                                           joined({kDataTypeNames.begin(), kDataTypeNames.end()}));
}

/// SiLU and the swish family come as gated units of three matrices; the GELU family as two.
bool is_gated(const Config& config) {
  const std::vector<const char*> keys{"hidden_act", "hidden_activation", "activation_function"};
  const std::string name = config.text(keys);
  const std::vector<std::string> gated{"silu", "swish", "swiglu"};
  const std::vector<std::string> plain{"gelu",        "gelu_new",   "gelu_fast", "gelu_pytorch_tanh",
                                       "gelu_python", "quick_gelu", "relu",      "relu2"};
  if (name.empty() || std::count(gated.begin(), gated.end(), name)) return true;
  if (std::count(plain.begin(), plain.end(), name)) return false;
  std::vector<std::string> accepted = gated;
  accepted.insert(accepted.end(), plain.begin(), plain.end());
  throw InputError(config.place(keys),
                   config.any_of(keys)->key + ": unknown activation " + in_quotes(name) + suggestion(name, accepted));
}

}  // namespace

workload::ModelShape load_model(const std::string& path, const Origin& where, const std::string& dtype,
                                const std::string& kv_dtype) {
  const Config config(parse_json(read_file(path, where, "model.config", kLongestConfig), path));
  if (config.any_of({"kv_lora_rank"})) {
    throw InputError(config.place({"kv_lora_rank"}), "kv_lora_rank: multi-head latent attention is not modelled");
  }
  workload::ModelShape shape;
  shape.name = std::filesystem::path(path).stem().string();
  shape.layers = config.required_size("num_hidden_layers");
  shape.hidden = config.required_size("hidden_size");
  shape.heads = config.required_size("num_attention_heads");
  shape.vocab = config.required_size("vocab_size");
  shape.kv_heads = config.size({"num_key_value_heads"}).value_or(shape.heads);
  if (shape.kv_heads > shape.heads || shape.heads % shape.kv_heads != 0) {
    throw InputError(config.place({"num_key_value_heads"}), "num_key_value_heads: " + std::to_string(shape.kv_heads) +
                                                                " does not divide num_attention_heads, " +
                                                                std::to_string(shape.heads));
  }
  const auto head_dim = config.size({"head_dim"});
  if (!head_dim && shape.hidden % shape.heads != 0) {
    throw InputError(config.place({"hidden_size"}), "hidden_size: " + std::to_string(shape.hidden) +
                                                        " is not a multiple of num_attention_heads, " +
                                                        std::to_string(shape.heads) + "; give head_dim");
  }
  shape.head_dim = head_dim.value_or(shape.hidden / shape.heads);
  shape.experts =
      config.size({"num_local_experts", "num_experts", "n_routed_experts", "num_routed_experts"}, 0).value_or(0);
  if (shape.experts == 1) shape.experts = 0;
  const auto dense_ffn = config.size({"intermediate_size"});
  const auto expert_ffn = shape.experts ? config.size({"moe_intermediate_size"}) : std::nullopt;
  if (!dense_ffn && !expert_ffn) config.required_size("intermediate_size");
  shape.ffn = expert_ffn ? *expert_ffn : *dense_ffn;
  if (shape.experts) {
    shape.experts_per_token = config.required_size("num_experts_per_tok");
    if (shape.experts_per_token > shape.experts) {
      throw InputError(config.place({"num_experts_per_tok"}),
                       "num_experts_per_tok: " + std::to_string(shape.experts_per_token) + " is more than the " +
                           std::to_string(shape.experts) + " experts");
    }
  }
  shape.gated_mlp = is_gated(config);
  shape.tied_embeddings = config.flag("tie_word_embeddings", false);
  const std::string family = config.text({"model_type"});
  shape.qkv_bias = config.flag("attention_bias", family == "qwen2" || family == "qwen2_moe");
  shape.dtype = dtype.empty() ? config_data_type(config) : data_type(dtype);
  shape.kv_dtype = kv_dtype.empty() ? shape.dtype : data_type(kv_dtype);
  return shape;
}

}  // namespace railyard::scenario
