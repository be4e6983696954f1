// A module that a scenario names: a memory, such as a CXL expander, that takes its time for each access.
#include <tlm_utils/simple_target_socket.h>

#include <iterator>

#include <railyard/transport/edge/module_library.h>

using namespace railyard::transport;

struct Memory : sc_core::sc_module {
  tlm_utils::simple_target_socket<Memory> socket{"socket"};
  const double gb_per_s;

  Memory(sc_core::sc_module_name name, ModulePlace& place) : sc_module(name), gb_per_s(place.number("gb_per_s")) {
    socket.register_b_transport(this, &Memory::b_transport);
    place.connect(socket);
  }
  void b_transport(tlm::tlm_generic_payload& payload, sc_core::sc_time& delay) {
    delay += sc_core::sc_time(payload.get_data_length() / gb_per_s, sc_core::SC_NS);
    payload.set_response_status(tlm::TLM_OK_RESPONSE);
  }
};

extern "C" const ModuleLibrary* railyard_module() {
  static const ModuleParameter parameters[] = {{"gb_per_s", ModuleParameter::Kind::number, "32", 1e-3, 1e6}};
  static const ModuleSocket sockets[] = {{"socket", ModuleSocket::Kind::target}};
  static const ModuleLibrary library{kModuleInterface,
                                     std::size(parameters),
                                     parameters,
                                     std::size(sockets),
                                     sockets,
                                     [](const char* name, ModulePlace& place) -> sc_core::sc_module* { return new Memory(name, place); }};
  return &library;
}
