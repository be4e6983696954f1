#include "sc_main/scenario/model/config.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <map>

#include "sc_main/scenario/model/keys.h"
#include "sc_main/scenario/model/layers.h"
#include "sc_main/scenario/table/words.h"

namespace railyard::scenario {

namespace {

using transformer::ModelShape;

constexpr std::size_t kLongestConfig = 1u << 20;
constexpr std::uint32_t kGptWidening = 4;  // factor of the MLP's width if a GPT's config does not give it

const Keys kQuantization{"quantization_config", "compression_config"};
const Keys kExperts{"num_local_experts", "num_experts", "n_routed_experts", "num_routed_experts", "moe_num_experts"};
const Keys kExpertsPerToken{"num_experts_per_tok", "experts_per_token", "num_experts_per_token", "moe_top_k"};
const Keys kFfn{"intermediate_size", "ffn_dim", "n_inner", "ffn_hidden_size"};
const Keys kActivation{"hidden_act", "hidden_activation", "activation_function", "activation"};
const Keys kHeads{"num_attention_heads", "n_head", "n_heads", "num_heads"};
const Keys kKvHeads{"num_key_value_heads", "num_kv_heads", "kv_n_heads", "n_head_kv"};
const Keys kHidden{"hidden_size", "n_embd", "n_embed", "d_model"};

DataType data_type(const std::string& name) {
  return static_cast<DataType>(std::find(kDataTypeNames.begin(), kDataTypeNames.end(), name) - kDataTypeNames.begin());
}

DataType config_data_type(const ModelConfig& config) {
  static const std::map<std::string, DataType> kNames{{"bfloat16", DataType::bf16},
                                                      {"float16", DataType::fp16},
                                                      {"half", DataType::fp16},
                                                      {"float8_e4m3fn", DataType::fp8},
                                                      {"int8", DataType::int8}};
  const Keys keys{"torch_dtype", "dtype"};
  const std::string name = config.text(keys);
  if (name.empty()) return DataType::bf16;
  const auto known = kNames.find(name);
  if (known != kNames.end()) return known->second;
  config.refuse(keys, in_quotes(name) + " is not modelled; set model.dtype in the scenario to one of " +
                          joined({kDataTypeNames.begin(), kDataTypeNames.end()}));
}

const Family& config_family(const ModelConfig& config) {
  const std::string type = config.text({"model_type"});
  if (const Family* family = family_of(type)) return *family;
  const std::string meant = meant_family(type);
  config.refuse({"model_type"}, in_quotes(type) + " is not modelled" +
                                    (meant.empty() ? "; accepted: " + joined(family_names())
                                                   : " (did you mean " + in_quotes(meant) + "?)"));
}

/// A model_type decides whether the MLP is gated, whatever the activation. Without a model_type, the name of the
/// activation decides: SiLU and names with GLU have a gate, and so has Gemma's own spelling of the key.
bool is_gated(const ModelConfig& config, const Family& family) {
  const std::string name = config.text(kActivation);
  const std::vector<std::string> gated{"silu", "swish", "swiglu", "geglu", "reglu"};
  const std::vector<std::string> plain{"gelu",          "gelu_new",    "gelu_fast",  "gelu_pytorch_tanh",
                                       "gelu_accurate", "gelu_python", "quick_gelu", "relu",
                                       "relu2",         "relu_squared"};
  const bool has_gate = name.empty() || std::count(gated.begin(), gated.end(), name) > 0;
  if (!has_gate && std::count(plain.begin(), plain.end(), name) == 0) {
    std::vector<std::string> accepted = gated;
    accepted.insert(accepted.end(), plain.begin(), plain.end());
    config.refuse(kActivation, "unknown activation " + in_quotes(name) + suggestion(name, accepted));
  }
  if (config.has({"model_type"})) return family.gated_mlp;
  return has_gate || config.any_of(kActivation)->key == "hidden_activation";
}

std::uint32_t kv_heads(const ModelConfig& config, const std::string& type, std::uint32_t heads) {
  if (type == "falcon" && !config.flag({"new_decoder_architecture"}, false))
    return config.flag({"multi_query"}, true) ? 1 : heads;
  if (type == "gpt_bigcode") return config.flag({"multi_query"}, true) ? 1 : heads;
  if (type == "mpt" && config.text({"attn_type"}) == "multiquery_attention") return 1;
  const std::uint32_t kv = config.size(kKvHeads).value_or(heads);
  if (kv > heads || heads % kv != 0)
    config.refuse(kKvHeads, std::to_string(kv) + " does not divide num_attention_heads, " + std::to_string(heads));
  return kv;
}

/// Multi-head latent attention: families of DeepSeek-V2.
std::optional<transformer::LatentAttention> latent_attention(const ModelConfig& config) {
  if (!config.size({"kv_lora_rank"})) return {};
  transformer::LatentAttention latent;
  latent.query_rank = config.size({"q_lora_rank"}, 0).value_or(0);
  latent.kv_rank = config.required_size({"kv_lora_rank"});
  latent.nope_dim = config.required_size({"qk_nope_head_dim"});
  latent.rope_dim = config.required_size({"qk_rope_head_dim"});
  latent.value_dim = config.required_size({"v_head_dim"});
  return latent;
}

void read_attention(ModelShape& shape, const ModelConfig& config, const Family& family, const std::string& type) {
  shape.heads = config.required_size(kHeads);
  shape.latent = latent_attention(config);
  if (shape.latent) {
    config.has(kKvHeads);  // as many as heads, none of them in the cache
    config.has({"head_dim"});
    shape.kv_heads = 1;
    shape.head_dim = shape.latent->query_dim();
    shape.qk_norm = shape.latent->query_rank + shape.latent->kv_rank;
    return;
  }
  shape.kv_heads = kv_heads(config, type, shape.heads);
  const auto head_dim = config.size({"head_dim", "attention_head_dim", "kv_channels"});
  if (!head_dim && shape.hidden % shape.heads != 0)
    config.refuse(kHidden, std::to_string(shape.hidden) + " is not a multiple of num_attention_heads, " +
                               std::to_string(shape.heads) + "; give head_dim");
  shape.head_dim = head_dim.value_or(shape.hidden / shape.heads);
  shape.qkv_bias = config.flag(family.qkv);
  shape.output_bias = config.flag(family.output);
  shape.sinks = type == "gpt_oss";
  const bool qk_norm =
      family.qk_norm != QkNorm::none && (*family.qk_norm_key == '\0' || config.flag({family.qk_norm_key}, false));
  if (qk_norm) shape.qk_norm = (family.qk_norm == QkNorm::per_head ? 2 : shape.heads + shape.kv_heads) * shape.head_dim;
}

/// GLM-4.5 always has what DeepSeek-V3 names.
void read_router(transformer::RouterForm& router, const ModelConfig& config, const std::string& type) {
  router.sigmoid = config.text({"scoring_func"}) == "sigmoid" || type == "glm4_moe";
  router.bias = config.text({"topk_method"}) == "noaux_tc" || type == "glm4_moe" || type == "minimax_m2";
  router.scaled = router.sigmoid && config.has({"routed_scaling_factor"});
  const std::uint32_t groups = config.size({"n_group"}).value_or(1), chosen = config.size({"topk_group"}).value_or(1);
  if (router.sigmoid && chosen < groups) router.groups = groups;
}

void read_experts(ModelShape& shape, const ModelConfig& config, const Family& family, const std::string& type) {
  shape.experts = config.size(kExperts, 0).value_or(0);
  if (shape.experts == 1) shape.experts = 0;
  auto ffn = config.size(kFfn);
  if (type == "mpt") ffn = shape.hidden * config.size({"expansion_ratio"}).value_or(kGptWidening);
  if (!ffn && !family.gated_mlp && config.has({"model_type"})) ffn = kGptWidening * shape.hidden;
  const auto expert_ffn = config.size({"moe_intermediate_size"});
  if (shape.experts == 0) {
    shape.ffn = ffn ? *ffn : config.required_size(kFfn);
    return;
  }
  shape.ffn = expert_ffn ? *expert_ffn : ffn ? *ffn : config.required_size(kFfn);
  shape.dense_ffn = ffn.value_or(0);
  shape.experts_per_token = config.required_size(kExpertsPerToken);
  if (shape.experts_per_token > shape.experts)
    config.refuse(kExpertsPerToken, std::to_string(shape.experts_per_token) + " is more than the " +
                                        std::to_string(shape.experts) + " experts");
  shape.shared_ffn = config.size({"shared_expert_intermediate_size", "shared_intermediate_size"}, 0).value_or(0);
  if (const auto shared = config.size({"n_shared_experts", "num_shared_experts"}, 0))
    shape.shared_ffn = *shared * shape.ffn;
  shape.shared_gate = shape.shared_ffn > 0 && type == "qwen2_moe";
  read_router(shape.router, config, type);
  shape.router_bias = shape.router.bias || type == "gpt_oss";
}

void read_ends(ModelShape& shape, const ModelConfig& config, const Family& family, const std::string& type) {
  shape.vocab = config.required_size({"vocab_size"});
  shape.tied_embeddings = config.flag({"tie_word_embeddings"}, family.tied_embeddings);
  shape.head_bias = config.flag(family.head);
  shape.embedding_norm = type == "bloom";
  Positions positions = family.positions;
  if (type == "falcon" && config.flag({"alibi"}, false)) positions = Positions::alibi;
  if (type == "mpt")
    positions = config.flag({"alibi"}, false)  ? Positions::alibi
                : config.flag({"rope"}, false) ? Positions::rotary
                                               : Positions::learned;
  shape.rotary = positions == Positions::rotary;
  if (positions == Positions::learned)
    shape.positions =
        config.required_size({"max_position_embeddings", "n_positions", "max_seq_len"}) + family.first_position;
  const auto projected = config.size({"word_embed_proj_dim"});
  if (projected && *projected != shape.hidden)
    config.refuse({"word_embed_proj_dim"}, "embeddings narrower than the layers are not modelled");
}

/// The longest sequence, by the rule of vLLM (config/model.py, _get_and_verify_max_len): the smallest of these keys, times
/// the factor by which the config stretches rotary positions.
std::uint32_t context_tokens(const ModelConfig& config) {
  constexpr double kMost = 1 << 30;
  double least = 0;
  const auto value_of = [&](const Entry& entry) {
    if (entry.value->text == "Infinity" || entry.value->text == "NaN") return 0.0;  // no limit
    Field number;
    number.range(0, std::numeric_limits<double>::max());
    return read_number(number, *entry.value, entry.key);
  };
  for (const char* key : {"max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "model_max_length"}) {
    const Entry* entry = config.peek(key);
    const double tokens = entry ? value_of(*entry) : 0;
    if (tokens > 0 && (least == 0 || tokens < least)) least = tokens;
  }
  const Entry* rope = config.peek("rope_scaling");
  if (!rope) rope = config.peek("rope_parameters");
  if (least > 0 && rope && rope->value->kind == Node::Kind::mapping) {
    const auto in_rope = [&](const char* key) -> const Entry* {
      const Entry* entry = rope->value->find(key);
      return entry && entry->value->kind == Node::Kind::scalar ? entry : nullptr;
    };
    const Entry* kind = in_rope("rope_type");
    if (!kind) kind = in_rope("type");
    const std::string name = kind ? kind->value->text : "";
    const Entry *factor = in_rope("factor"), *original = in_rope("original_max_position_embeddings");
    const bool is_stretched = factor && name != "su" && name != "longrope" && name != "llama3";
    if (is_stretched) least = (name == "yarn" && original ? value_of(*original) : least) * value_of(*factor);
  }
  return static_cast<std::uint32_t>(std::min(least, kMost));
}

void read_norms(ModelShape& shape, const ModelConfig& config, const Family& family, const std::string& type) {
  shape.norms = family.norms;
  shape.norm_vectors = family.norm_vectors;
  if (type == "stablelm" && config.flag({"use_parallel_residual"}, false)) shape.norms = 1;
  if (type == "falcon" && config.flag({"parallel_attn"}, true))
    shape.norms =
        config.flag({"new_decoder_architecture"}, false) ? config.size({"num_ln_in_parallel_attn"}).value_or(2) : 1;
  if (type == "falcon" && config.flag({"new_decoder_architecture"}, false) && !config.flag({"parallel_attn"}, true))
    shape.norms = 2;
  if (type == "mpt" && !config.flag({"no_bias"}, true)) {
    shape.qkv_bias = shape.output_bias = shape.mlp_bias = true;
    shape.norm_vectors = 2;
  }
  if (type == "opt" && !config.flag({"do_layer_norm_before"}, true))
    config.refuse({"do_layer_norm_before"}, "norms only after attention and MLP are not modelled for this model_type");
}

/// NVIDIA's ModelOpt up to 0.29 wrote the formats of quantised weights into a file of their own; serving engines read it
/// if the config says nothing (vLLM, transformers_utils/config.py, get_config).
void read_quantization_beside(ModelConfig& config, const std::string& path, std::vector<std::string>& notes) {
  const std::filesystem::path beside = std::filesystem::path(path).parent_path() / "hf_quant_config.json";
  if (!std::filesystem::exists(beside)) return;
  const std::string file = beside.string();
  config.add_quantization(parse_json(read_file(file, {path, 0, 0}, "hf_quant_config.json", kLongestConfig), file));
  notes.push_back(file + ": number formats of weights and KV cache, which " + path + " does not give");
}

}  // namespace

Record<ModelSection> model_record() {
  std::vector<std::string> types(kDataTypeNames.begin(), kDataTypeNames.end());
  Record<ModelSection> r;
  r.add("config", &ModelSection::config, "HuggingFace config.json with the model's shape").is_path().required();
  r.add("name", &ModelSection::name, "name of the model in outputs").fallback("file name of the config");
  r.word("dtype", &ModelSection::dtype, types, "number format of weights and activations")
      .fallback("torch_dtype of the config");
  r.choice(
      "quantization", &ModelSection::quantization, {"config", "none"},
      "config: weights and KV cache have the formats of the config's quantization_config; none: all have dtype, as "
      "when the model was trained");
  r.word("kv_dtype", &ModelSection::kv_dtype, types, "number format of the KV cache").fallback("dtype");
  return r;
}

void remove_formats(ModelShape& model) {
  for (transformer::LayerShape& kind : model.kinds) kind.attention = kind.mlp = kind.experts = std::nullopt;
  model.head.reset();
}

LoadedModel load_model(const std::string& path, const Origin& where, const std::string& dtype,
                       const std::string& kv_dtype, const std::string& key) {
  ModelConfig config(parse_json(read_file(path, where, key, kLongestConfig), path));
  config.refuse_features();
  LoadedModel model;
  if (!config.has(kQuantization)) read_quantization_beside(config, path, model.notes);
  if (config.has(kQuantization) && !dtype.empty() && dtype != "bf16" && dtype != "fp16")
    throw InputError(where, "model.dtype: " + dtype +
                                ", but the config has quantised weights; all other weights must be bf16 or fp16");
  const Family& family = config_family(config);
  const std::string type = config.text({"model_type"});
  config.set_defaults(family);
  ModelShape& shape = model.shape;
  shape.name = std::filesystem::path(path).stem().string();
  shape.layers = config.required_size({"num_hidden_layers", "n_layer", "n_layers", "num_layers"}, kMostLayers);
  shape.hidden = config.required_size(kHidden);
  read_attention(shape, config, family, type);
  shape.gated_mlp = is_gated(config, family);
  shape.mlp_bias = config.flag(family.mlp);
  read_experts(shape, config, family, type);
  read_ends(shape, config, family, type);
  read_norms(shape, config, family, type);
  model.served = {context_tokens(config), family.keeps_residual};
  shape.dtype = dtype.empty() ? config_data_type(config) : data_type(dtype);
  config.has({"torch_dtype", "dtype"});
  shape.kv_dtype = shape.dtype;
  read_layers(shape, config, family);
  if (!kv_dtype.empty()) shape.kv_dtype = data_type(kv_dtype);
  const std::vector<std::string> judged = config.judge_rest(path);
  model.notes.insert(model.notes.end(), judged.begin(), judged.end());
  return model;
}

}  // namespace railyard::scenario
