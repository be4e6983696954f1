#include "sc_main/scenario/model/keys.h"

#include <algorithm>

#include "sc_main/scenario/table/record.h"
#include "sc_main/scenario/table/words.h"

namespace railyard::scenario {

namespace {

/// Tokens, training, precision of norms, routing scores, scale factors: keys that change neither work nor bytes.
const std::set<std::string>& meaningless_keys() {
  static const std::set<std::string> kKeys{"_attn_implementation",
                                           "_attn_implementation_autoset",
                                           "_name_or_path",
                                           "activation_dropout",
                                           "alibi_bias_max",
                                           "architectures",
                                           "attention_multiplier",
                                           "attention_softmax_in_fp32",
                                           "attn_implementation",
                                           "attn_impl",
                                           "attn_uses_sequence_id",
                                           "auto_map",
                                           "aux_loss_alpha",
                                           "bad_words_ids",
                                           "begin_suppress_tokens",
                                           "bias_dropout_fusion",
                                           "boi_token_index",
                                           "bos_token_id",
                                           "cache_implementation",
                                           "chunk_size_feed_forward",
                                           "classifier_dropout",
                                           "cls_token_id",
                                           "decoder_start_token_id",
                                           "diversity_penalty",
                                           "do_sample",
                                           "early_stopping",
                                           "embedding_fraction",
                                           "embedding_multiplier",
                                           "encoder_no_repeat_ngram_size",
                                           "eoi_token_index",
                                           "eos_token_id",
                                           "ep_size",
                                           "eps",
                                           "exponential_decay_length_penalty",
                                           "final_w_init_variance_scale",
                                           "finetuning_task",
                                           "forced_bos_token_id",
                                           "forced_eos_token_id",
                                           "gradient_checkpointing",
                                           "id2label",
                                           "image_token_id",
                                           "image_token_index",
                                           "init_config",
                                           "init_device",
                                           "init_std",
                                           "initial_context_length",
                                           "initializer_cutoff_factor",
                                           "initializer_range",
                                           "input_jitter_noise",
                                           "is_decoder",
                                           "label2id",
                                           "layer_norm_eps",
                                           "layer_norm_epsilon",
                                           "layernorm_epsilon",
                                           "learned_pos_emb",
                                           "length_penalty",
                                           "logit_scale",
                                           "logits_scaling",
                                           "low_cpu_mem_usage",
                                           "mask_token_id",
                                           "masked_softmax_fusion",
                                           "max_length",
                                           "max_position_embeddings",
                                           "max_seq_len",
                                           "min_length",
                                           "mm_tokens_per_image",
                                           "model_max_length",
                                           "model_type",
                                           "moe_loss_weight",
                                           "moe_jitter_eps",
                                           "moe_normalize_expert_weights",
                                           "n_ctx",
                                           "n_group",
                                           "n_positions",
                                           "norm_eps",
                                           "norm_epsilon",
                                           "norm_topk_prob",
                                           "norm_type",
                                           "num_beam_groups",
                                           "num_beams",
                                           "num_nextn_predict_layers",
                                           "num_return_sequences",
                                           "offset_alibi",
                                           "original_max_position_embeddings",
                                           "output_attentions",
                                           "output_hidden_states",
                                           "output_router_logits",
                                           "output_scores",
                                           "pad_token_id",
                                           "parallel_residual",
                                           "position_embedding_type",
                                           "prefix",
                                           "prefix_lm",
                                           "pretraining_tp",
                                           "problem_type",
                                           "query_pre_attn_scalar",
                                           "remove_invalid_values",
                                           "reorder_and_upcast_attn",
                                           "repetition_penalty",
                                           "residual_multiplier",
                                           "return_dict",
                                           "return_dict_in_generate",
                                           "rms_norm_eps",
                                           "rope_local_base_freq",
                                           "rope_parameters",
                                           "rope_theta",
                                           "rotary_emb_base",
                                           "router_aux_loss_coef",
                                           "router_jitter_noise",
                                           "routed_scaling_factor",
                                           "scale_attention_softmax_in_fp32",
                                           "scale_attn_by_inverse_layer_idx",
                                           "scale_attn_weights",
                                           "scoring_func",
                                           "sep_token_id",
                                           "seq_aux",
                                           "seq_length",
                                           "skip_bias_add",
                                           "skip_bias_add_qkv",
                                           "slow_but_exact",
                                           "softmax_scale",
                                           "summary_activation",
                                           "summary_first_dropout",
                                           "summary_proj_to_labels",
                                           "summary_type",
                                           "summary_use_proj",
                                           "suppress_tokens",
                                           "swiglu_limit",
                                           "task_specific_params",
                                           "temperature",
                                           "tf_legacy_loss",
                                           "tokenizer_class",
                                           "tokenizer_name",
                                           "top_k",
                                           "top_p",
                                           "topk_group",
                                           "topk_method",
                                           "torchscript",
                                           "transformers_version",
                                           "typical_p",
                                           "unk_token_id",
                                           "use_bfloat16",
                                           "use_cache",
                                           "use_mrope",
                                           "validate_runner_input",
                                           "inference_runner",
                                           "video_token_id",
                                           "vision_start_token_id",
                                           "vision_end_token_id",
                                           "vision_token_id",
                                           "verbose",
                                           "tie_encoder_decoder",
                                           "no_repeat_ngram_size",
                                           "rope_ratio",
                                           "attn_type"};
  return kKeys;
}

/// Reported on stderr: keys that change a model's computation, but a kernel's time little or not at all.
const std::set<std::string>& named_keys() {
  static const std::set<std::string> kKeys{"attn_logit_softcapping",
                                           "clip_qkv",
                                           "final_logit_softcapping",
                                           "parallel_attn",
                                           "partial_rotary_factor",
                                           "rope_scaling",
                                           "rotary_dim",
                                           "rotary_pct",
                                           "use_parallel_residual"};
  return kKeys;
}

struct Refused {
  const char* key;
  const char* what;  ///< with its verb
};
constexpr Refused kRefused[] = {{"attention_chunk_size", "chunked attention is"},
                                {"add_cross_attention", "cross-attention is"},
                                {"block_configs", "layers of different shapes are"},
                                {"cross_attention_layers", "cross-attention is"},
                                {"hybrid_override_pattern", "state-space layers (Mamba) are"},
                                {"index_topk", "sparse attention is"},
                                {"is_encoder_decoder", "an encoder is"},
                                {"linear_num_key_heads", "linear attention is"},
                                {"mamba_d_state", "state-space layers (Mamba) are"},
                                {"mamba_num_heads", "state-space layers (Mamba) are"},
                                {"no_rope_layers", "layers of different positions are"},
                                {"num_kv_shared_layers", "layers that share KV are"},
                                {"pruned_heads", "layers with pruned heads are"},
                                {"sparse_attention", "sparse attention is"},
                                {"ssm_state_size", "state-space layers (Mamba) are"}};

bool is_off(const Node& node) {
  if (node.kind == Node::Kind::null) return true;
  if (node.kind == Node::Kind::sequence) return node.items.empty();
  if (node.kind == Node::Kind::mapping) return node.entries.empty();
  return node.text == "false" || node.text == "0" || node.text == "0.0" || node.text.empty();
}

bool is_dropout(const std::string& key) {
  return key.find("drop") != std::string::npos;  // resid_pdrop, attention_dropout, hidden_dropout_prob, layerdrop
}

/// Parts of a multimodal model other than the decoder.
bool is_tower(const std::string& key) { return key == "vision_config" || key == "audio_config" || key == "visual"; }

}  // namespace

ModelConfig::ModelConfig(NodePtr root) {
  if (root->kind != Node::Kind::mapping) throw InputError(root->origin, "expected an object, got " + root->described());
  const auto nested = [&](const NodePtr& node, const char* key) -> NodePtr {
    const Entry* entry = node->find(key);
    if (!entry || entry->value->kind != Node::Kind::mapping) return nullptr;
    read_.insert(key);
    return entry->value;
  };
  const NodePtr text = nested(root, "text_config");
  nodes_.push_back(text ? text : root);
  for (const char* part : {"attn_config", "ffn_config"})
    if (const NodePtr node = nested(nodes_.front(), part)) nodes_.push_back(node);
  if (text) nodes_.push_back(root);
}

void ModelConfig::add_quantization(const NodePtr& root) {
  if (root->kind != Node::Kind::mapping) throw InputError(root->origin, "expected an object, got " + root->described());
  const Entry* section = root->find("quantization");
  if (!section || section->value->kind != Node::Kind::mapping)
    throw InputError(section ? section->value->origin : root->origin,
                     "quantization: expected an object, got " + (section ? section->value->described() : "nothing"));
  std::shared_ptr<Node> beside = std::make_shared<Node>();
  beside->kind = Node::Kind::mapping;
  beside->origin = root->origin;
  beside->entries.push_back({"quantization_config", section->origin, section->value});
  nodes_.push_back(beside);
}

const Entry* ModelConfig::any_of(const Keys& keys) const {
  read_.insert(keys.begin(), keys.end());
  for (const NodePtr& node : nodes_) {
    for (const char* key : keys) {
      const Entry* entry = node->find(key);
      if (entry && entry->value->kind != Node::Kind::null) return entry;
    }
  }
  return nullptr;
}

const Entry* ModelConfig::peek(const char* key) const {
  for (const NodePtr& node : nodes_)
    if (const Entry* entry = node->find(key); entry && entry->value->kind != Node::Kind::null) return entry;
  return nullptr;
}

bool ModelConfig::mentions(const char* key) const {
  return std::any_of(nodes_.begin(), nodes_.end(), [&](const NodePtr& node) { return node->find(key) != nullptr; });
}

std::optional<std::uint32_t> ModelConfig::size(const Keys& keys, double least, double most) const {
  if (const Entry* entry = any_of(keys)) {
    Field field;
    field.range(least, most);
    return static_cast<std::uint32_t>(read_integer(field, *entry->value, entry->key));
  }
  for (const auto& [key, value] : defaults_)
    if (std::find(keys.begin(), keys.end(), std::string(key)) != keys.end() && !mentions(key))
      return static_cast<std::uint32_t>(value);
  return std::nullopt;
}

std::uint32_t ModelConfig::required_size(const Keys& keys, double most) const {
  if (const auto value = size(keys, 1, most)) return *value;
  throw InputError(nodes_.front()->origin, std::string(keys.front()) + ": is required in a model's config.json");
}

bool ModelConfig::flag(const Keys& keys, bool otherwise) const {
  const Entry* entry = any_of(keys);
  return entry ? read_boolean({}, *entry->value, entry->key) : otherwise;
}

std::string ModelConfig::text(const Keys& keys) const {
  const Entry* entry = any_of(keys);
  return entry ? read_text({}, *entry->value, entry->key) : "";
}

Origin ModelConfig::place(const Keys& keys) const {
  const Entry* entry = any_of(keys);
  return entry ? entry->value->origin : nodes_.front()->origin;
}

void ModelConfig::refuse(const Keys& keys, const std::string& why) const {
  const Entry* entry = any_of(keys);
  throw InputError(place(keys), (entry ? entry->key : std::string(keys.front())) + ": " + why);
}

void ModelConfig::refuse_features() const {
  for (const NodePtr& node : nodes_)
    for (const Entry& entry : node->entries)
      for (const Refused& refused : kRefused)
        if (entry.key == refused.key && !is_off(*entry.value))
          throw InputError(entry.value->origin, entry.key + ": " + refused.what + " not modelled");
}

std::vector<std::string> ModelConfig::judge_rest(const std::string& file) const {
  std::vector<std::string> named, unknown, towers;
  for (const NodePtr& node : nodes_) {
    for (const Entry& entry : node->entries) {
      if (read_.count(entry.key) > 0 || is_off(*entry.value)) continue;
      if (is_tower(entry.key)) {
        towers.push_back(entry.key);
      } else if (named_keys().count(entry.key) > 0 || is_dropout(entry.key)) {
        named.push_back(entry.key);
      } else if (meaningless_keys().count(entry.key) == 0) {
        unknown.push_back(printable(entry.key, 40));
      }
    }
  }
  std::vector<std::string> lines;
  if (!towers.empty())
    lines.push_back(file + ": only the decoder is modelled, without the work and the memory of " + joined(towers));
  if (!named.empty()) lines.push_back(file + ": assumed to have no effect on time: " + joined(named));
  if (!unknown.empty())
    lines.push_back(file + ": unknown keys, assumed to have no effect on time and memory: " + joined(unknown));
  return lines;
}

}  // namespace railyard::scenario
