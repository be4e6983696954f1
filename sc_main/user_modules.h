// Modules of the user in a machine (machine.modules): loads their libraries, makes them where the scenario says, and connects
// their sockets (transport/edge/module_library.h).
//
//   Shell "dma"       one for each entry of the scenario
//     device          what the library makes
//     SOCKET          an adapter for each socket that the library states, under the socket's name
//
// Each adapter has a link of its own to the PCIe switch, or root complex, at its place, with the rate of a NIC's. A module may send at any
// time: it has no horizon (transport/horizon.h), so nothing is replayed or composed beside it. Its code runs in this process.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "platforms/machine.h"
#include "sc_main/scenario.h"
#include "transport/assembly.h"

namespace railyard {

class UserLibrary;

class UserModules {
 public:
  /// @throws InputError: as UserLibrary; a place that does not exist; a socket that is not stated, not handed over, or left unbound; what
  /// the module itself refuses
  UserModules(const Scenario& scenario, transport::Assembly& fabric, platforms::Machine& machine);
  ~UserModules();

  bool empty() const { return shells_.empty(); }
  struct Parameter {
    std::string name;  ///< "dma.gb_per_s"
    std::string value, unit, origin;
  };
  /// All that the libraries state, in the order of the scenario.
  std::vector<Parameter> parameters() const;
  /// Adapters in the order of the scenario, and of each library's sockets. Each has one port.
  std::vector<const transport::Endpoint*> adapters() const;

 private:
  class Shell;
  std::vector<std::unique_ptr<UserLibrary>> libraries_;  ///< of the modules in the order of the scenario
  std::vector<std::unique_ptr<Shell>> shells_;
};

}  // namespace railyard
