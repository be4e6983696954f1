// What a model's config says of single layers: which have a sliding window, which of a mixture of experts are dense, and how the
// weights of each are stored.
#pragma once

#include "sc_main/scenario/model/keys.h"
#include "transformer/model_shape.h"

namespace railyard::scenario {

constexpr std::uint32_t kMostLayers = 4096;

/// Fills the kinds of layers, the head's format and, where the config has its own, the KV cache's type. @pre the shape's other fields are read
void read_layers(transformer::ModelShape& shape, const ModelConfig& config, const Family& family);

}  // namespace railyard::scenario
