// The interface between Railyard and a shared library of the user with a SystemC module, which a scenario names in
// machine.modules. Include it in the library; it needs nothing else of Railyard, and nothing is linked. The library exports
//
//   extern "C" const railyard::transport::ModuleLibrary* railyard_module();
//
// Railyard looks at the version first, checks the scenario's parameters and places of sockets against what the library
// states, lets it make the module, and connects the sockets that the module hands over to adapters
// (generic_payload_adapter.h), each at its place.
#pragma once

#include <cstdint>
#include <systemc>
#include <tlm>

namespace railyard::transport {

/// Rises with every change of this file.
constexpr std::uint32_t kModuleInterface = 2;
constexpr const char* kModuleEntry = "railyard_module";

/// What the scenario can set. Texts live as long as the library.
struct ModuleParameter {
  enum class Kind : std::uint8_t { number, text };
  const char* name;  ///< with the unit of a number: "gb_per_s"
  Kind kind;
  const char* fallback;  ///< if the scenario does not set it, as text; null: it must
  double least, most;    ///< of a number
};

/// A socket of 32 bits with the base protocol, which Railyard connects.
struct ModuleSocket {
  enum class Kind : std::uint8_t { initiator, target };
  const char* name;  ///< basename() of the socket: letters, digits and _; not "device"
  Kind kind;
};

/// Where a module is made, and what the scenario says. Valid while it is made.
class ModulePlace {
 public:
  /// @pre a parameter of this kind
  virtual double number(const char* parameter) const = 0;
  virtual const char* text(const char* parameter) const = 0;
  /// Address of the first byte of a memory, by hierarchical name: of a GPU (prefill0.gpu0), of a CPU socket (prefill0.host0), of a
  /// module's target socket (expander.left), or of a module with one target socket (expander). An error of the scenario if there is
  /// none.
  virtual std::uint64_t address_of(const char* memory) const = 0;
  /// Hands a socket over. Each socket that the library states is handed over once, and no other.
  virtual void connect(tlm::tlm_base_initiator_socket<>& socket) = 0;
  virtual void connect(tlm::tlm_base_target_socket<>& socket) = 0;

 protected:
  ~ModulePlace() = default;
};

struct ModuleLibrary {
  std::uint32_t version;  ///< kModuleInterface of its build; the first member of every version
  std::uint32_t parameter_count;
  const ModuleParameter* parameters;
  std::uint32_t socket_count;
  const ModuleSocket* sockets;
  /// Makes the module under this name with `new`. An exception is an error of the scenario.
  sc_core::sc_module* (*make)(const char* name, ModulePlace& place);
};

}  // namespace railyard::transport
