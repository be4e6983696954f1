// The room `model` reads models. ModelConfig reads config.json by its Family (families.h), layers.h its kinds of
// layers, weights.h and ModulePatterns its quantisation, profile.h measured times of layers. The result is a
// ModelShape; what is not modelled is refused by name. The loader calls it for kinds that run a model.
//
// Reads a model's shape from a HuggingFace config.json.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/input_error.h"
#include "sc_main/scenario/table/record.h"
#include "transformer/model_shape.h"

namespace railyard::scenario {

/// Formats of weights: those of the config, or the model's dtype for all.
enum class Quantization : std::uint8_t { config, none };

struct ModelSection {
  std::string config;
  std::string name;      ///< "": stem of the config's file name
  std::string dtype;     ///< "": dtype of the config
  std::string kv_dtype;  ///< "": same as dtype
  Quantization quantization = Quantization::config;
};

Record<ModelSection> model_record();

/// What a serving engine reads in a config besides the shape.
struct ServedModel {
  std::uint32_t context_tokens = 0;  ///< longest sequence; 0: the config does not say
  /// vLLM keeps the residual apart from the hidden state, up to the next norm, so pipeline stages send both.
  bool keeps_residual = true;
};

struct LoadedModel {
  transformer::ModelShape shape;
  ServedModel served;
  std::vector<std::string> notes;  ///< one line for each key that is not modelled and changes no time
};

/// Keys have the meaning of the transformers library's class for the model_type; absent keys have its defaults.
/// @param dtype, kv_dtype  override the config's torch_dtype; "": as in the config (kv_dtype: same as dtype)
/// @param key  that names the file
/// @throws InputError at the position in the config, or at `where` if the file cannot be read
LoadedModel load_model(const std::string& path, const Origin& where, const std::string& dtype,
                       const std::string& kv_dtype, const std::string& key = "model.config");
/// Gives all weights the model's dtype.
void remove_formats(transformer::ModelShape& model);

}  // namespace railyard::scenario
