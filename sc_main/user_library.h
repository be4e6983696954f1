// A shared library of the user (transport/edge/module_library.h), loaded, and checked against what a scenario says of its module.
#pragma once

#include <string>
#include <vector>

#include "sc_main/module_spec.h"
#include "transport/edge/module_library.h"

namespace railyard {

class UserLibrary {
 public:
  struct Socket {
    std::string name;
    transport::ModuleSocket::Kind kind;
    ModuleSpec::Place at;
    std::string key;  ///< of its place in the scenario
  };

  /// @throws InputError: a library that is not there, is no library of modules or has another version; a parameter or socket that it does
  /// not state, a required one that is missing
  explicit UserLibrary(const ModuleSpec& spec);

  const transport::ModuleLibrary& entry() const { return *entry_; }
  /// Of its parameters, in their order: what the scenario sets, or the default.
  const std::vector<std::string>& values() const { return values_; }
  /// In the order in which the library states them; at least one.
  const std::vector<Socket>& sockets() const { return sockets_; }

 private:
  const transport::ModuleLibrary* entry_;  ///< stays loaded: its code runs until the process ends
  std::vector<std::string> values_;
  std::vector<Socket> sockets_;
};

}  // namespace railyard
