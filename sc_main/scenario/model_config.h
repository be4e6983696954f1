// A model's shape from a HuggingFace config.json.
#pragma once

#include <string>

#include "sc_main/scenario/datasheets.h"
#include "workload/model_shape.h"

namespace railyard::scenario {

/// @param dtype, kv_dtype  names that override the config's torch_dtype; "" to keep it (kv_dtype: to follow dtype)
/// @throws InputError at the place in the config, or at `where` when the file itself cannot be read
workload::ModelShape load_model(const std::string& path, const Origin& where, const std::string& dtype,
                                const std::string& kv_dtype);

}  // namespace railyard::scenario
