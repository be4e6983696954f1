// A module with two sockets, each at a place of its own: a memory that two PCIe switches share, as a CXL memory with two heads.
#include <tlm_utils/simple_target_socket.h>

#include <algorithm>
#include <iterator>

#include <railyard/transport/edge/module_library.h>

using namespace railyard::transport;

struct TwoHeaded : sc_core::sc_module {
  tlm_utils::simple_target_socket<TwoHeaded> left{"left"}, right{"right"};
  const double gb_per_s;  // of both heads together
  sc_core::sc_time free_at;

  TwoHeaded(sc_core::sc_module_name name, ModulePlace& place) : sc_module(name), gb_per_s(place.number("gb_per_s")) {
    for (auto* socket : {&left, &right}) {
      socket->register_b_transport(this, &TwoHeaded::b_transport);
      place.connect(*socket);
    }
  }
  void b_transport(tlm::tlm_generic_payload& payload, sc_core::sc_time& delay) {
    const sc_core::sc_time now = sc_core::sc_time_stamp();
    free_at = std::max(free_at, now + delay) + sc_core::sc_time(payload.get_data_length() / gb_per_s, sc_core::SC_NS);
    delay = free_at - now;
    payload.set_response_status(tlm::TLM_OK_RESPONSE);
  }
};

extern "C" const ModuleLibrary* railyard_module() {
  static const ModuleParameter parameters[] = {{"gb_per_s", ModuleParameter::Kind::number, "32", 1e-3, 1e6}};
  static const ModuleSocket sockets[] = {{"left", ModuleSocket::Kind::target}, {"right", ModuleSocket::Kind::target}};
  static const ModuleLibrary library{
      kModuleInterface,
      std::size(parameters),
      parameters,
      std::size(sockets),
      sockets,
      [](const char* name, ModulePlace& place) -> sc_core::sc_module* { return new TwoHeaded(name, place); }};
  return &library;
}
