// A model's shape from a HuggingFace config.json.
#pragma once

#include <string>
#include <vector>

#include "base/input_error.h"
#include "sc_main/scenario/table/record.h"
#include "transformer/model_shape.h"

namespace railyard::scenario {

struct ModelSection {
  std::string config;
  std::string dtype;     ///< "": the config's
  std::string kv_dtype;  ///< "": as dtype
};

Record<ModelSection> model_record();

struct LoadedModel {
  transformer::ModelShape shape;
  std::vector<std::string> notes;  ///< about keys that are not modelled and change no time: a line each
};

/// Keys mean what the transformers library's class for the config's model_type means by them, absent ones have its defaults.
/// @param dtype, kv_dtype  names that override the config's torch_dtype; "" to keep it (kv_dtype: to follow dtype)
/// @throws InputError at the place in the config, or at `where` when the file itself cannot be read
LoadedModel load_model(const std::string& path, const Origin& where, const std::string& dtype,
                       const std::string& kv_dtype);

}  // namespace railyard::scenario
