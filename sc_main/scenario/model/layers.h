// Reads properties of single layers from a model's config: the layers with a sliding window, the dense layers of a
// mixture of experts, and the weight format of each layer.
#pragma once

#include "sc_main/scenario/model/keys.h"
#include "transformer/model_shape.h"

namespace railyard::scenario {

constexpr std::uint32_t kMostLayers = 4096;

/// Sets kinds of layers, the head's format and the config's KV cache type. @pre the shape's other fields are set
void read_layers(transformer::ModelShape& shape, const ModelConfig& config, const Family& family);

}  // namespace railyard::scenario
