#include "sc_main/scenario/model/layers.h"

#include <algorithm>

#include "sc_main/scenario/model/weights.h"
#include "sc_main/scenario/table/record.h"
#include "sc_main/scenario/table/words.h"

namespace railyard::scenario {

namespace {

using transformer::LayerShape;
using transformer::ModelShape;

constexpr std::size_t kMostKinds = 64;

/// `layer_types`, the newest key for windows; empty if it is missing.
std::vector<bool> listed_windows(const ModelConfig& config, std::uint32_t layers) {
  const Entry* entry = config.any_of({"layer_types"});
  if (!entry) return {};
  if (entry->value->kind != Node::Kind::sequence)
    throw InputError(entry->value->origin, "layer_types: expected a list, got " + entry->value->described());
  if (entry->value->items.size() != layers)
    throw InputError(entry->value->origin, "layer_types: has " + std::to_string(entry->value->items.size()) +
                                               " items for " + std::to_string(layers) + " layers");
  std::vector<bool> windows;
  for (const NodePtr& item : entry->value->items) {
    const std::string name = read_text({}, *item, "layer_types");
    if (name != "full_attention" && name != "sliding_attention")
      throw InputError(item->origin, "layer_types: " + in_quotes(name) +
                                         " is not modelled; accepted: full_attention, sliding_attention");
    windows.push_back(name == "sliding_attention");
  }
  return windows;
}

/// The layers with a window, by the family's rule.
std::vector<bool> ruled_windows(const ModelConfig& config, const Family& family, std::uint32_t layers) {
  std::vector<bool> windows(layers, false);
  const std::uint32_t first = config.size({"max_window_layers"}, 0).value_or(layers);
  const std::uint32_t pattern = config.size({"sliding_window_pattern", "_sliding_window_pattern"}).value_or(1);
  for (std::uint32_t l = 0; l < layers; ++l) {
    switch (family.window) {
      case WindowRule::none: break;
      case WindowRule::all: windows[l] = true; break;
      case WindowRule::from_layer: windows[l] = l >= first; break;
      case WindowRule::every_other: windows[l] = l % 2 == 0; break;
      case WindowRule::pattern: windows[l] = (l + 1) % pattern != 0; break;
    }
  }
  return windows;
}

void read_windows(std::vector<LayerShape>& layers, const ModelConfig& config, const Family& family) {
  const auto count = static_cast<std::uint32_t>(layers.size());
  const std::vector<bool> listed = listed_windows(config, count);
  const std::vector<bool> windows = listed.empty() ? ruled_windows(config, family, count) : listed;
  if (listed.empty() && family.window == WindowRule::none) return;
  const auto window = config.size({"sliding_window"}, 0);
  if (!config.flag({"use_sliding_window"}, family.window != WindowRule::from_layer)) return;
  for (std::uint32_t l = 0; l < count; ++l) {
    if (!windows[l]) continue;
    if (!listed.empty() && !window) config.refuse({"layer_types"}, "sliding_attention needs sliding_window");
    layers[l].window = window.value_or(0);
  }
}

void read_dense_layers(std::vector<LayerShape>& layers, const ModelConfig& config, const Family& family) {
  if (family.sparse == SparseRule::first) {
    const std::uint32_t first = config.size({"first_k_dense_replace"}, 0).value_or(0),
                        step = config.size({"moe_layer_freq"}).value_or(1);
    for (std::uint32_t l = 0; l < layers.size(); ++l) layers[l].dense = l < first || l % step != 0;
  }
  if (family.sparse != SparseRule::step) return;
  const std::uint32_t step = config.size({"decoder_sparse_step"}).value_or(1);
  for (std::uint32_t l = 0; l < layers.size(); ++l) layers[l].dense = (l + 1) % step != 0;
  const Entry* only = config.any_of({"mlp_only_layers"});
  if (!only) return;
  Field field;
  field.range(0, kMostLayers);
  for (const std::uint32_t l : read_integers(field, *only->value, only->key)) {
    if (l >= layers.size())
      config.refuse({"mlp_only_layers"},
                    std::to_string(l) + " is not a layer; accepted: below " + std::to_string(layers.size()));
    layers[l].dense = true;
  }
}

}  // namespace

void read_layers(ModelShape& shape, const ModelConfig& config, const Family& family) {
  std::vector<LayerShape> layers(shape.layers);
  read_windows(layers, config, family);
  if (shape.experts > 0) read_dense_layers(layers, config, family);
  if (read_weights(layers, shape, config)) shape.kv_dtype = DataType::fp8;
  shape.kinds.clear();
  shape.kind_of.clear();
  for (const LayerShape& layer : layers) {
    auto kind = std::find(shape.kinds.begin(), shape.kinds.end(), layer);
    if (kind == shape.kinds.end()) kind = shape.kinds.insert(kind, layer);
    if (shape.kinds.size() > kMostKinds)
      config.refuse({"quantization_config"}, "more than " + std::to_string(kMostKinds) + " kinds of layers");
    shape.kind_of.push_back(static_cast<std::uint8_t>(kind - shape.kinds.begin()));
  }
  if (shape.kinds.size() == 1) shape.kind_of.clear();
  for (const LayerShape& layer : shape.kinds)
    if (layer.dense && shape.dense_ffn == 0) config.required_size({"intermediate_size"});
}

}  // namespace railyard::scenario
