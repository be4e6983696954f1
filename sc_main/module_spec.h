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
  /// Where a socket is connected.
  struct Place {
    std::string socket;     ///< "": each socket of the module
    std::string connected;  ///< name of a PCIe switch, or of a root complex
    Origin origin;
  };
  std::string name;       ///< of the module in the machine
  std::string library;    ///< path of the file
  std::vector<Place> at;  ///< one for all sockets, or one for each
  std::vector<Value> parameters;
  std::string key;  ///< "machine.modules.0"
  /// Positions of the module and of these values.
  Origin origin, name_origin, library_origin, at_origin;
};

}  // namespace railyard
