#include "sc_main/scenario/model/weights.h"

#include <algorithm>

#include "sc_main/scenario/model/module_patterns.h"
#include "sc_main/scenario/table/record.h"
#include "sc_main/scenario/table/words.h"

namespace railyard::scenario {

namespace {

using transformer::LayerShape;
using transformer::ModelShape;
using transformer::WeightFormat;
using Format = std::optional<WeightFormat>;

constexpr double kScaleBits = 16, kBlockScaleBits = 32, kMostGroup = 1 << 20, kBitsPerByte = 8;
constexpr std::uint32_t kNvfp4Group = 16;
constexpr double kMxfp4Bits = 4 + 8.0 / 32;  // OCP Microscaling Formats 1.0

/// A mapping of the config; its errors contain the path.
struct Section {
  const Node& node;
  std::string path;

  const Node* find(const std::string& key) const {
    const Entry* entry = node.find(key);
    return entry && entry->value->kind != Node::Kind::null ? entry->value.get() : nullptr;
  }
  [[noreturn]] void refuse(const std::string& key, const std::string& why) const {
    const Node* value = find(key);
    throw InputError(value ? value->origin : node.origin, path + "." + key + ": " + why);
  }
  std::string text(const std::string& key) const {
    const Node* value = find(key);
    return value ? read_text({}, *value, path + "." + key) : "";
  }
  bool flag(const std::string& key, bool otherwise) const {
    const Node* value = find(key);
    return value ? read_boolean({}, *value, path + "." + key) : otherwise;
  }
  /// -1 (whole columns) and a missing key: 0
  std::uint32_t group(const std::string& key) const {
    const Node* value = find(key);
    if (!value || value->text == "-1") return 0;
    Field field;
    field.range(1, kMostGroup);
    return static_cast<std::uint32_t>(read_integer(field, *value, path + "." + key));
  }
  std::uint32_t bits(const std::string& key) const {
    const Node* value = find(key);
    if (!value) refuse(key, "is required");
    Field field;
    field.range(1, 32);
    const auto bits = static_cast<std::uint32_t>(read_integer(field, *value, path + "." + key));
    if (bits != 4 && bits != 8) refuse(key, std::to_string(bits) + " is not modelled; accepted: 4, 8");
    return bits;
  }
  Section section(const std::string& key) const {
    const Node* value = find(key);
    if (!value || value->kind != Node::Kind::mapping)
      refuse(key, "expected an object, got " + (value ? value->described() : "nothing"));
    return {*value, path + "." + key};
  }
};

/// Integers in groups (0: no groups), each group with a scale and, unless symmetric, a zero point.
WeightFormat integers(std::uint32_t bits, std::uint32_t group, bool symmetric) {
  WeightFormat f;
  f.name = "int" + std::to_string(bits) + (group > 0 ? " in groups of " + std::to_string(group) : "");
  f.bytes = (bits + (group > 0 ? (kScaleBits + (symmetric ? 0 : bits)) / group : 0)) / kBitsPerByte;
  f.dequantised = true;
  return f;
}

WeightFormat floats8(double scales_per_weight) {
  WeightFormat f;
  f.name = "fp8";
  f.dtype = DataType::fp8;
  f.bytes = 1 + scales_per_weight * kBlockScaleBits / kBitsPerByte;
  return f;
}

WeightFormat nvfp4() {
  WeightFormat f;
  f.name = "nvfp4";
  f.dtype = DataType::nvfp4;
  f.bytes = bytes_of(DataType::nvfp4);
  return f;
}

WeightFormat fp8_method(const Section& config) {
  const Node* block = config.find("weight_block_size");
  double scales = 0;
  bool of_128 = false;
  if (block) {
    Field field;
    field.range(1, kMostGroup);
    const std::vector<std::uint32_t> sizes = read_integers(field, *block, config.path + ".weight_block_size");
    if (sizes.size() != 2) config.refuse("weight_block_size", "expected two sizes");
    scales = 1.0 / (static_cast<double>(sizes[0]) * sizes[1]);
    of_128 = sizes[0] == 128 && sizes[1] == 128;
  }
  WeightFormat f = floats8(scales);
  const std::string scheme = config.text("activation_scheme");
  if (!scheme.empty() && scheme != "dynamic" && scheme != "static")
    config.refuse("activation_scheme", in_quotes(scheme) + suggestion(scheme, {"dynamic", "static"}));
  f.dynamic = scheme != "static";
  f.blocks_of_128 = of_128;
  return f;
}

WeightFormat modelopt(const Section& config) {
  const std::string name = config.text("quant_algo");
  if (name == "FP8") return floats8(0);
  if (name == "NVFP4") return nvfp4();
  config.refuse("quant_algo", in_quotes(name) + " is not modelled; accepted: FP8, NVFP4");
}

/// A group of compressed-tensors: `weights`, and `input_activations` if they are narrow, too.
WeightFormat compressed(const Section& group) {
  const Section weights = group.section("weights");
  const std::uint32_t bits = weights.bits("num_bits"), size = weights.group("group_size");
  const std::string type = weights.text("type");
  const bool is_float = type == "float";
  if (!is_float && type != "int") weights.refuse("type", in_quotes(type) + " is not modelled; accepted: int, float");
  if (is_float && bits == 4 && size != kNvfp4Group)
    weights.refuse("group_size", "is not modelled for 4-bit floats; accepted: 16");
  WeightFormat f = !is_float ? integers(bits, size, weights.flag("symmetric", true)) : bits == 8 ? floats8(0) : nvfp4();
  const Node* inputs = group.find("input_activations");
  if (!inputs) {
    f.dequantised = true;
    return f;
  }
  const Section activations = group.section("input_activations");
  if (activations.bits("num_bits") != bits || activations.text("type") != type)
    group.refuse("input_activations", "activations of another type than the weights are not modelled");
  if (!is_float && bits == 4) group.refuse("input_activations", "products of 4-bit integers are not modelled");
  f.dequantised = false;
  if (!is_float) f.dtype = DataType::int8;
  const Node* dynamic = activations.find("dynamic");
  f.dynamic = dynamic && dynamic->text != "false" && dynamic->text != "local";  // local: by block, in addition to a
                                                                                // static scale
  return f;
}

/// A rule of a config for modules of the decoder.
struct Rule {
  WeightFormat format;
  ModulePatterns targets;  ///< the modules of this rule
  bool all_linear = true;  ///< the rule applies to all linear layers
};

struct Rules {
  std::vector<Rule> rules;  ///< the first rule that matches a module applies
  ModulePatterns ignored;
  bool head = false;  ///< the output head counts as a linear layer
  bool experts_only = false;
};

void read_groups(Rules& rules, const Section& config) {
  const Node* sparsity = config.find("sparsity_config");
  if (sparsity && !sparsity->entries.empty()) config.refuse("sparsity_config", "sparse weights are not modelled");
  if (config.text("format").find("24") != std::string::npos) config.refuse("format", "sparse weights are not modelled");
  const Section groups = config.section("config_groups");
  for (const Entry& entry : groups.node.entries) {
    const Section group = groups.section(entry.key);
    Rule rule{compressed(group), {}, false};
    const Node* targets = group.find("targets");
    if (!targets || targets->kind != Node::Kind::sequence) group.refuse("targets", "is required: a list of modules");
    for (const NodePtr& target : targets->items) rule.all_linear = rule.all_linear || target->text == "Linear";
    if (!rule.all_linear) rule.targets.add(*targets, group.path + ".targets");
    rules.rules.push_back(rule);
  }
  rules.head = true;
}

Rules read_rules(const Section& config, const std::string& method, const ModelShape& shape) {
  Rules rules;
  if (method == "awq") {
    rules.rules = {{integers(config.bits("bits"), config.group("group_size"), !config.flag("zero_point", true)), {}}};
  } else if (method == "gptq") {
    const Node* special = config.find("dynamic");
    if (special && !special->entries.empty())
      config.refuse("dynamic", "modules with formats of their own are not modelled");
    rules.rules = {{integers(config.bits("bits"), config.group("group_size"), config.flag("sym", true)), {}}};
    rules.head = config.flag("lm_head", false);
  } else if (method == "compressed-tensors") {
    read_groups(rules, config);
  } else if (method == "fp8" || method == "fbgemm_fp8") {
    rules.rules = {{fp8_method(config), {}}};
  } else if (method == "modelopt") {
    rules.rules = {{modelopt(config), {}}};
  } else if (method == "mxfp4") {
    if (shape.experts == 0)
      config.refuse("quant_method", "mxfp4 is a format of experts, but this model has no experts");
    WeightFormat f;
    f.name = "mxfp4";
    f.bytes = kMxfp4Bits / kBitsPerByte;
    f.dequantised = true;
    rules.rules = {{f, {}}};
    rules.experts_only = true;
  } else {
    const std::vector<std::string> methods{"awq",      "gptq", "compressed-tensors", "fp8", "fbgemm_fp8",
                                           "modelopt", "mxfp4"};
    config.refuse("quant_method", (method.empty() ? "is required" : in_quotes(method) + " is not modelled") +
                                      "; accepted: " + joined(methods));
  }
  for (const char* key : {"modules_to_not_convert", "ignore", "ignored_layers", "exclude_modules"})
    if (const Node* list = config.find(key)) rules.ignored.add(*list, config.path + "." + key);
  return rules;
}

/// The names of a matrix, alone and joined with others.
using Names = std::vector<std::string>;
const std::vector<Names> kAttention{{"self_attn.q_proj", "self_attn.qkv_proj"},
                                    {"self_attn.k_proj", "self_attn.qkv_proj"},
                                    {"self_attn.v_proj", "self_attn.qkv_proj"},
                                    {"self_attn.o_proj"}};
const std::vector<std::vector<std::string>> kMatrices{
    {"gate_proj", "gate_up_proj", "w1"}, {"up_proj", "gate_up_proj", "w3"}, {"down_proj", "w2"}};

std::vector<Names> mlp_names(const Names& parents) {
  std::vector<Names> all;
  for (const Names& matrix : kMatrices) {
    all.emplace_back();
    for (const std::string& parent : parents)
      for (const std::string& name : matrix) all.back().push_back(parent + "." + name);
  }
  return all;
}

class Formats {
 public:
  Formats(const Rules& rules, const Section& config, DataType dtype) : rules_(rules), config_(config), dtype_(dtype) {}

  /// The common format of all matrices of a part.
  Format of(const std::vector<Names>& part, const char* what, std::uint32_t layer) const {
    const Format first = of(part.front(), layer);
    for (const Names& matrix : part)
      if (!(of(matrix, layer) == first))
        throw InputError(config_.node.origin, config_.path + ": number formats that differ inside the " + what +
                                                  " of layer " + std::to_string(layer) + " are not modelled");
    return first;
  }
  Format head() const { return rules_.head ? of({"lm_head"}, 0, false) : std::nullopt; }

 private:
  Format of(const Names& names, std::uint32_t layer, bool in_layer = true) const {
    const auto any = [&](const ModulePatterns& patterns) {
      return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
        return in_layer ? patterns.match("model.layers." + std::to_string(layer) + "." + name, layer)
                        : patterns.match(name);
      });
    };
    if (any(rules_.ignored)) return std::nullopt;
    for (const Rule& rule : rules_.rules) {
      if (!rule.all_linear && !any(rule.targets)) continue;
      WeightFormat format = rule.format;
      if (format.dequantised) format.dtype = dtype_;
      return format;
    }
    return std::nullopt;
  }

  const Rules& rules_;
  const Section& config_;
  DataType dtype_;
};

bool has_fp8_cache(const Section& config) {
  const std::string algorithm = config.text("kv_cache_quant_algo");
  if (!algorithm.empty() && algorithm != "FP8")
    config.refuse("kv_cache_quant_algo", in_quotes(algorithm) + " is not modelled; accepted: FP8");
  if (!config.find("kv_cache_scheme")) return !algorithm.empty();
  const Section scheme = config.section("kv_cache_scheme");
  if (scheme.bits("num_bits") != 8 || scheme.text("type") != "float")
    config.refuse("kv_cache_scheme", "a KV cache of this type is not modelled; accepted: 8 bits, float");
  return true;
}

}  // namespace

bool read_weights(std::vector<LayerShape>& layers, ModelShape& shape, const ModelConfig& model) {
  const Entry* entry = model.any_of({"quantization_config", "compression_config"});
  if (!entry) return false;
  if (entry->value->kind != Node::Kind::mapping)
    throw InputError(entry->value->origin, entry->key + ": expected an object, got " + entry->value->described());
  const Section config{*entry->value, entry->key};
  const std::string method = config.find("quant_algo") ? "modelopt" : config.text("quant_method");
  const Rules rules = read_rules(config, method, shape);
  const Formats formats(rules, config, shape.dtype);
  const std::vector<Names> mlp = mlp_names({"mlp", "mlp.shared_expert", "mlp.shared_experts"}),
                           dense = mlp_names({"mlp"});
  const std::vector<Names> experts =
      mlp_names({"mlp.experts.0", "mlp.experts", "block_sparse_moe.experts.0", "feed_forward.experts"});
  for (std::uint32_t l = 0; l < layers.size(); ++l) {
    LayerShape& layer = layers[l];
    const bool routes = shape.routes(layer);
    if (routes) layer.experts = formats.of(experts, "experts", l);
    if (rules.experts_only) continue;
    layer.attention = formats.of(kAttention, "attention", l);
    if (!routes || shape.shared_ffn > 0) layer.mlp = formats.of(routes ? mlp : dense, "MLP", l);
  }
  shape.head = formats.head();
  return has_fp8_cache(config);
}

}  // namespace railyard::scenario
