// The interface between Railyard and a shared library of the user with a SystemC module, which a scenario names in
// machine.modules. Include it in the library; it needs nothing else of Railyard, and nothing is linked. The library exports
//
//   extern "C" const railyard::transport::ModuleLibrary* railyard_module();
//
// Railyard looks at the version first, checks the parameters of the scenario against those of the library, lets it make
// the module, and connects the sockets that the module hands over to adapters (generic_payload_adapter.h).
#pragma once

#include <cstdint>
#include <systemc>
#include <tlm>

namespace railyard::transport {

/// Rises with every change of this file.
constexpr std::uint32_t kModuleInterface = 1;
constexpr const char* kModuleEntry = "railyard_module";

/// What the scenario can set. Texts live as long as the library.
struct ModuleParameter {
  enum class Kind : std::uint8_t { number, text };
  const char* name;  ///< with the unit of a number: "gb_per_s"
  Kind kind;
  const char* fallback;  ///< if the scenario does not set it, as text; null: it must
  double least, most;    ///< of a number
};

/// Where a module is made, and what the scenario says. Valid while it is made.
class ModulePlace {
 public:
  /// @pre a parameter of this kind
  virtual double number(const char* parameter) const = 0;
  virtual const char* text(const char* parameter) const = 0;
  /// Address of the first byte of a memory, by hierarchical name: of a GPU (prefill0.gpu0), of a socket (prefill0.host0), or of a
  /// module with a target socket, by its name. An error of the scenario if there is none.
  virtual std::uint64_t address_of(const char* memory) const = 0;
  /// Hands a socket over: at most one of each kind.
  virtual void connect(tlm::tlm_base_initiator_socket<>& socket) = 0;
  virtual void connect(tlm::tlm_base_target_socket<>& socket) = 0;

 protected:
  ~ModulePlace() = default;
};

struct ModuleLibrary {
  std::uint32_t version;  ///< kModuleInterface of its build; the first member of every version
  std::uint32_t parameter_count;
  const ModuleParameter* parameters;
  /// Makes the module under this name with `new`. An exception is an error of the scenario.
  sc_core::sc_module* (*make)(const char* name, ModulePlace& place);
};

}  // namespace railyard::transport
