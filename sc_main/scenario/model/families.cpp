#include "sc_main/scenario/model/families.h"

#include <algorithm>

#include "sc_main/scenario/table/words.h"

namespace railyard::scenario {

namespace {

constexpr BiasRule kAlways{"", true};
constexpr BiasRule kAttentionBias{"attention_bias", false};
constexpr BiasRule kMlpBias{"mlp_bias", false};

/// RMSNorm, gated MLP; biases only if a key sets them.
Family llama(std::vector<const char*> types) {
  Family f;
  f.types = std::move(types);
  return f;
}

/// LayerNorm with biases, MLP without gate, biases everywhere.
Family gpt(std::vector<const char*> types, BiasRule bias = kAlways) {
  Family f;
  f.types = std::move(types);
  f.gated_mlp = false;
  f.tied_embeddings = true;
  f.qkv = f.output = f.mlp = bias;
  f.norm_vectors = 2;
  f.keeps_residual = false;
  return f;
}

std::vector<Family> llama_like() {
  std::vector<Family> all;
  Family f = llama({"llama", ""});
  f.qkv = f.output = kAttentionBias;
  f.mlp = kMlpBias;
  all.push_back(f);
  f.types = {"granite", "granitemoe"};
  f.keeps_residual = false;
  all.push_back(f);

  f = llama({"mistral", "ministral"});
  f.window = WindowRule::all;
  f.defaults = {{"num_key_value_heads", 8}, {"sliding_window", 4096}};
  all.push_back(f);
  f = llama({"mixtral"});
  f.window = WindowRule::all;
  f.defaults = {{"num_key_value_heads", 8}, {"num_local_experts", 8}, {"num_experts_per_tok", 2}};
  all.push_back(f);
  f = llama({"phi3"});
  f.window = WindowRule::all;
  all.push_back(f);
  all.push_back(llama({"internlm2"}));

  f = llama({"qwen2", "qwen2_moe"});
  f.qkv = {"attention_bias", true};
  f.window = WindowRule::from_layer;
  f.sparse = SparseRule::step;
  f.defaults = {{"sliding_window", 4096}, {"max_window_layers", 28}};
  all.push_back(f);
  f = llama({"qwen3", "qwen3_moe", "qwen3_vl_text", "qwen3_vl_moe_text"});
  f.qkv = f.output = kAttentionBias;
  f.qk_norm = QkNorm::per_head;
  f.window = WindowRule::from_layer;
  f.sparse = SparseRule::step;
  f.defaults = {{"head_dim", 128}, {"sliding_window", 4096}, {"max_window_layers", 28}};
  all.push_back(f);

  f = llama({"glm"});
  f.qkv = {"attention_bias", true};
  f.defaults = {{"head_dim", 128}};
  all.push_back(f);
  f.types = {"glm4"};
  f.norms = 4;
  all.push_back(f);
  f = llama({"glm4_moe"});
  f.qkv = kAttentionBias;
  f.qk_norm = QkNorm::per_head;
  f.qk_norm_key = "use_qk_norm";
  f.sparse = SparseRule::first;
  all.push_back(f);
  f = llama({"deepseek"});
  f.qkv = f.output = kAttentionBias;
  f.sparse = SparseRule::first;
  all.push_back(f);

  f = llama({"deepseek_v2", "deepseek_v3", "kimi_k2"});
  f.qkv = f.output = kAttentionBias;
  f.sparse = SparseRule::first;
  all.push_back(f);

  f = llama({"minimax_m2"});
  f.qk_norm = QkNorm::per_width;
  f.qk_norm_key = "use_qk_norm";
  all.push_back(f);

  f = llama({"gpt_oss"});
  f.qkv = f.output = {"attention_bias", true};
  f.mlp = kAlways;
  f.window = WindowRule::every_other;
  f.defaults = {{"head_dim", 64}, {"sliding_window", 128}};
  all.push_back(f);
  return all;
}

/// Gemma (GeGLU), Cohere, OLMo, DBRX, StableLM, Nemotron, Phi-3.5-MoE: different norms; gated MLP except in Nemotron.
std::vector<Family> others() {
  std::vector<Family> all;
  Family f = llama({"gemma"});
  f.tied_embeddings = true;
  f.qkv = f.output = kAttentionBias;
  f.defaults = {{"head_dim", 256}};
  all.push_back(f);
  f.types = {"gemma2"};
  f.norms = 4;
  f.window = WindowRule::every_other;
  f.defaults = {{"head_dim", 256}, {"sliding_window", 4096}};
  all.push_back(f);
  f.types = {"gemma3_text", "gemma3"};
  f.qk_norm = QkNorm::per_head;
  f.window = WindowRule::pattern;
  f.defaults = {{"head_dim", 256},      {"num_attention_heads", 8}, {"num_key_value_heads", 4},
                {"vocab_size", 262208}, {"sliding_window", 4096},   {"sliding_window_pattern", 6}};
  all.push_back(f);

  f = llama({"cohere"});
  f.tied_embeddings = true;
  f.qkv = f.output = kAttentionBias;
  f.norms = 1;
  f.qk_norm = QkNorm::per_width;
  f.qk_norm_key = "use_qk_norm";
  all.push_back(f);
  f.types = {"cohere2"};
  f.qk_norm = QkNorm::none;
  f.qk_norm_key = "";
  f.window = WindowRule::pattern;
  f.defaults = {{"sliding_window", 4096}, {"sliding_window_pattern", 4}};
  all.push_back(f);

  f = llama({"olmo"});
  f.qkv = f.output = kAttentionBias;
  f.norm_vectors = 0;
  f.keeps_residual = false;
  all.push_back(f);
  f = llama({"olmo2", "olmoe"});
  f.keeps_residual = false;
  f.qkv = f.output = kAttentionBias;
  f.qk_norm = QkNorm::per_width;
  all.push_back(f);
  f.types = {"olmo3"};
  f.window = WindowRule::pattern;
  f.defaults = {{"sliding_window", 4096}, {"sliding_window_pattern", 4}};
  all.push_back(f);

  f = llama({"dbrx"});
  f.keeps_residual = false;
  all.push_back(f);
  f = llama({"stablelm"});
  f.keeps_residual = false;
  f.qkv = {"use_qkv_bias", false};
  f.norm_vectors = 2;
  f.qk_norm = QkNorm::per_width;
  f.qk_norm_key = "qk_layernorm";
  all.push_back(f);
  f = llama({"nemotron"});
  f.gated_mlp = false;
  f.qkv = f.output = kAttentionBias;
  f.mlp = kMlpBias;
  f.norm_vectors = 2;
  all.push_back(f);
  f = llama({"phimoe"});
  f.qkv = f.output = kAttentionBias;
  f.head = {"lm_head_bias", false};
  f.norm_vectors = 2;
  f.window = WindowRule::all;
  all.push_back(f);
  return all;
}

std::vector<Family> gpt_like() {
  std::vector<Family> all;
  Family f = gpt({"gpt2", "gpt_bigcode"});
  f.positions = Positions::learned;
  f.defaults = {{"vocab_size", 50257}, {"n_positions", 1024}};
  all.push_back(f);
  f = gpt({"opt"}, {"enable_bias", true});
  f.positions = Positions::learned;
  f.first_position = 2;
  all.push_back(f);
  f = gpt({"gpt_neox"});
  f.tied_embeddings = false;
  f.qkv = f.output = {"attention_bias", true};
  all.push_back(f);
  f = gpt({"gptj"});
  f.tied_embeddings = false;
  f.qkv = f.output = {};
  f.head = kAlways;
  f.norms = 1;
  all.push_back(f);
  f = gpt({"phi"});
  f.tied_embeddings = false;
  f.head = kAlways;
  f.norms = 1;
  all.push_back(f);
  all.push_back(gpt({"falcon"}, {"bias", false}));
  f = gpt({"bloom"});
  f.positions = Positions::alibi;
  all.push_back(f);
  f = gpt({"mpt"}, {});
  f.norm_vectors = 1;
  all.push_back(f);
  f = gpt({"starcoder2"}, {"use_bias", true});
  f.window = WindowRule::all;
  f.defaults = {{"num_key_value_heads", 2}};
  all.push_back(f);
  return all;
}

const std::vector<Family>& families() {
  static const std::vector<Family> kFamilies = [] {
    std::vector<Family> all = llama_like();
    for (const auto& more : {others(), gpt_like()}) all.insert(all.end(), more.begin(), more.end());
    return all;
  }();
  return kFamilies;
}

}  // namespace

const Family* family_of(const std::string& type) {
  for (const Family& family : families())
    if (std::count(family.types.begin(), family.types.end(), type) > 0) return &family;
  return nullptr;
}

std::vector<std::string> family_names() {
  std::vector<std::string> names;
  for (const Family& family : families())
    for (const std::string name : family.types)
      if (!name.empty()) names.push_back(name);
  std::sort(names.begin(), names.end());
  return names;
}

std::string meant_family(const std::string& type) {
  const auto digits = [](const std::string& text) {
    std::string found;
    for (const char c : text)
      if (c >= '0' && c <= '9') found += c;
    return found;
  };
  const auto begins = [](const std::string& text, const std::string& with) { return text.rfind(with, 0) == 0; };
  std::vector<std::string> alike;
  for (const std::string& name : family_names())
    if (digits(name) == digits(type) && !begins(name, type) && !begins(type, name)) alike.push_back(name);
  return nearest(type, alike);
}

}  // namespace railyard::scenario
