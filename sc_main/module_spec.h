// A module of the user as a scenario names it (machine.modules): plain data, nothing looked up yet.
#pragma once

#include <string>
#include <vector>

#include "base/input_error.h"

namespace railyard {

struct ModuleSpec {
  struct Value {
    std::string parameter, text;
    Origin origin;
  };
  std::string name;     ///< of the module in the machine
  std::string library;  ///< path of the file
  std::string at;       ///< name of a PCIe switch, or of a root complex
  std::vector<Value> parameters;
  std::string key;  ///< "machine.modules.0"
  /// Positions of the module and of these values.
  Origin origin, name_origin, library_origin, at_origin;
};

}  // namespace railyard
