// Libraries that are wrong in one way each, chosen by a macro; without one, a module with a text and a number.
#include <tlm_utils/simple_initiator_socket.h>
#include <tlm_utils/simple_target_socket.h>

#include <iterator>
#include <stdexcept>

#include <railyard/transport/edge/module_library.h>

using namespace railyard::transport;

struct Module : sc_core::sc_module {
  tlm_utils::simple_initiator_socket<Module> socket{"socket"};
  tlm_utils::simple_target_socket<Module> configuration{"configuration"};

  Module(sc_core::sc_module_name name, [[maybe_unused]] ModulePlace& place) : sc_module(name) {
    configuration.register_b_transport(this, &Module::b_transport);
#ifdef LEAVES_UNBOUND
    place.connect(socket);
#elif defined(HANDS_OVER_NOTHING)
#elif defined(REFUSES)
    throw std::runtime_error("the module has a mind of its own");
#elif defined(REPORTS)
    SC_REPORT_ERROR("configuration", "of no use");
#else
    place.connect(socket);
    place.connect(configuration);
#endif
  }
  void b_transport(tlm::tlm_generic_payload& payload, sc_core::sc_time&) {
    payload.set_response_status(tlm::TLM_OK_RESPONSE);
  }
};

#ifndef HAS_NO_ENTRY
extern "C" const ModuleLibrary* railyard_module() {
  static const ModuleParameter parameters[] = {
      {"label", ModuleParameter::Kind::text, "", 0, 0},
      {"gb_per_s", ModuleParameter::Kind::number, "1", 0.5, 100},
  };
  [[maybe_unused]] static const ModuleSocket sockets[] = {
      {"socket", ModuleSocket::Kind::initiator},
#ifdef STATES_ANOTHER
      {"configuratio", ModuleSocket::Kind::target},
#elif !defined(LEAVES_UNBOUND)
      {"configuration", ModuleSocket::Kind::target},
#endif
  };
  static const ModuleLibrary library{
#ifdef HAS_ANOTHER_VERSION
      kModuleInterface + 6,
#else
      kModuleInterface,
#endif
      std::size(parameters),
      parameters,
#ifdef STATES_NOTHING
      0,
      nullptr,
#else
      std::size(sockets),
      sockets,
#endif
      [](const char* name, ModulePlace& place) -> sc_core::sc_module* { return new Module(name, place); }};
  return &library;
}
#endif
