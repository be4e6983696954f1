// A monitor on one direction of a link: it forwards and counts all calls.
#pragma once

#include <tlm_utils/passthrough_target_socket.h>
#include <tlm_utils/simple_initiator_socket.h>

#include "transport/device/device.h"

namespace railyard::test {

class Spy : public sc_core::sc_module {
 public:
  static constexpr unsigned kBusWidth = transport::Device::kBusWidth;
  tlm_utils::passthrough_target_socket<Spy, kBusWidth, transport::FabricProtocol> in{"in"};
  tlm_utils::simple_initiator_socket<Spy, kBusWidth, transport::FabricProtocol> out{"out"};

  std::uint64_t transactions = 0;
  Bytes payload_bytes = 0, wire_bytes = 0, credit_bytes = 0;

  explicit Spy(sc_core::sc_module_name name) : sc_module(name) {
    in.register_nb_transport_fw(this, &Spy::forward);
    out.register_nb_transport_bw(this, &Spy::backward);
  }

  /// Both directions of a link between two devices, each with a spy.
  static void between(transport::Device& a, PortId port_a, transport::Device& b, PortId port_b, Spy& a_to_b,
                      Spy& b_to_a) {
    a.port(port_a).transmit.bind(a_to_b.in);
    a_to_b.out.bind(b.port(port_b).receive);
    b.port(port_b).transmit.bind(b_to_a.in);
    b_to_a.out.bind(a.port(port_a).receive);
    transport::Device::introduce(a, port_a, b, port_b);
  }

 private:
  tlm::tlm_sync_enum forward(transport::Transaction& t, transport::Phase& phase, sc_core::sc_time& delay) {
    ++transactions;
    payload_bytes += t.carried_bytes();
    wire_bytes += t.wire_bytes;
    return out->nb_transport_fw(t, phase, delay);
  }
  tlm::tlm_sync_enum backward(transport::Transaction& t, transport::Phase& phase, sc_core::sc_time& delay) {
    credit_bytes += t.credit_bytes;
    return in->nb_transport_bw(t, phase, delay);
  }
};

}  // namespace railyard::test
