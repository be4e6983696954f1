// A module that a scenario names: a DMA engine, which writes block after block into a memory until the run is over.
#include <tlm_utils/simple_initiator_socket.h>

#include <iterator>
#include <vector>

#include <railyard/transport/edge/module_library.h>

using namespace railyard::transport;

struct Dma : sc_core::sc_module {
  tlm_utils::simple_initiator_socket<Dma> socket{"socket"};
  const std::uint64_t to;
  const unsigned block_bytes;
  const sc_core::sc_time pause;

  SC_HAS_PROCESS(Dma);
  Dma(sc_core::sc_module_name name, ModulePlace& place)
      : sc_module(name),
        to(place.address_of(place.text("to"))),
        block_bytes(static_cast<unsigned>(place.number("block_bytes"))),
        pause(place.number("pause_us"), sc_core::SC_US) {
    place.connect(socket);
    SC_THREAD(write);
  }
  void write() {
    std::vector<unsigned char> data(block_bytes);
    for (;;) {
      tlm::tlm_generic_payload payload;
      payload.set_command(tlm::TLM_WRITE_COMMAND);
      payload.set_address(to);
      payload.set_data_ptr(data.data());
      payload.set_data_length(block_bytes);
      payload.set_streaming_width(block_bytes);
      sc_core::sc_time delay;
      socket->b_transport(payload, delay);  // returns when the last byte is there
      if (payload.is_response_error()) SC_REPORT_ERROR(name(), payload.get_response_string().c_str());  // ends the run
      wait(pause);
    }
  }
};

extern "C" const ModuleLibrary* railyard_module() {
  static const ModuleParameter parameters[] = {
      {"to", ModuleParameter::Kind::text, nullptr, 0, 0},  // required: name of a memory
      {"block_bytes", ModuleParameter::Kind::number, "1048576", 1, 1 << 30},
      {"pause_us", ModuleParameter::Kind::number, "0", 0, 1e9},
  };
  static const ModuleSocket sockets[] = {{"socket", ModuleSocket::Kind::initiator}};
  static const ModuleLibrary library{kModuleInterface,
                                     std::size(parameters),
                                     parameters,
                                     std::size(sockets),
                                     sockets,
                                     [](const char* name, ModulePlace& place) -> sc_core::sc_module* { return new Dma(name, place); }};
  return &library;
}
