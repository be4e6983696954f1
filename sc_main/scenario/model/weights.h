// `quantization_config` of a model's config.json: how weight matrices are stored and multiplied.
//
//   awq, gptq           4 or 8 bits in groups with a 16-bit scale and, unless symmetric, a zero point; widened on use
//   compressed-tensors  the same, or fp8, int8 and nvfp4 with or without activations of that type
//   fp8, fbgemm_fp8     fp8 weights and activations, scales by tensor, channel or block; activations static or dynamic
//   modelopt            fp8 or nvfp4, activations static
//   mxfp4               experts in 4 bits with an 8-bit scale for each 32; widened in the kernel
//
// Embeddings, norms, biases and routers keep the model's dtype. So does the output head, unless the config changes it.
#pragma once

#include <vector>

#include "sc_main/scenario/model/keys.h"
#include "transformer/model_shape.h"

namespace railyard::scenario {

/// Sets the formats of `layers` and of the shape's head. @return true if the KV cache is fp8
/// @pre the shape's sizes are set @throws InputError for a method or a mixture that is not modelled
bool read_weights(std::vector<transformer::LayerShape>& layers, transformer::ModelShape& shape,
                  const ModelConfig& config);

}  // namespace railyard::scenario
