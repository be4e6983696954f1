// What LLMServingSim calls a GPU or a model, and its datasheet or config here.
#pragma once

#include <string>

#include "base/input_error.h"

namespace railyard::scenario {

/// Name of the GPU's datasheet. @throws InputError at `where`: unknown hardware
std::string datasheet_of_hardware(const std::string& hardware, const Origin& where, const std::string& key);

/// Path of the model's config: FOLDER/ORG_NAME.json or FOLDER/ORG/NAME.json for "ORG/NAME".
/// @param folder  "": the shipped configs, whose names are NAME in lower case
/// @throws InputError at `where`: no such config
std::string config_of_model(const std::string& model, const std::string& folder, const Origin& where,
                            const std::string& key);

}  // namespace railyard::scenario
