// The room `edge` connects devices that speak the TLM-2.0 base protocol: InitiatorAdapter sends their transactions over
// the fabric as messages, TargetAdapter delivers messages to their targets. Tests use it, and users with SystemC models
// of their own, in programs or in shared libraries (module_library.h).
//
// The edge of the fabric for TLM models of the base protocol (tlm_generic_payload). A user's initiator or target takes
// part in the machine's traffic, with its contention, latencies and bandwidth.
//
//   user's initiator -> InitiatorAdapter -> fabric -> any memory, or
//   any device on the fabric -> TargetAdapter -> user's target
//
// On an initiator's side, addresses are those of the fabric: window << kWindowBits plus an offset. A target gets only
// the offset. Contents are not modelled: reads return zeros, and writes to a target contain zeros.
// On a machine, Machine::attach() maps an adapter's window. Links of adapters need trains, because fluid streams call
// no target; fluid fidelity is refused for these links.
#pragma once

#include <tlm_utils/simple_initiator_socket.h>
#include <tlm_utils/simple_target_socket.h>
#include <vector>

#include "transport/device/endpoint.h"
#include "transport/device/routes.h"

namespace railyard::transport {

class Assembly;
class Fabric;

/// Serves a blocking initiator: b_transport() returns when the last byte has arrived (write) or returned (read).
/// Responses:
///   TLM_OK_RESPONSE             done; the time passed in wait(), the returned delay is zero
///   TLM_ADDRESS_ERROR_RESPONSE  no memory on the fabric has the address, or the access leaves its window
///   TLM_BYTE_ENABLE_ERROR_RESPONSE, TLM_BURST_ERROR_RESPONSE  byte enables; a streaming width below the length
/// Call it from any number of SC_THREADs. Each access is a message; accesses of one thread are in order.
class InitiatorAdapter : public Endpoint, public Sender, private MessageClient {
 public:
  InitiatorAdapter(sc_core::sc_module_name name, Assembly& fabric, Window window, std::uint8_t traffic_class);

  tlm_utils::simple_target_socket<InitiatorAdapter> socket{"socket"};

  bool is_memory() const override { return false; }
  bool needs_trains() const override { return true; }
  void send(Message& message) override;
  Path path_to(Window destination, std::uint8_t traffic_class, Engine engine) const override;

 protected:
  void receive(Transaction& transaction) override;

 private:
  /// A b_transport() call that waits.
  struct Access {
    sc_core::sc_event done;
  };
  void b_transport(tlm::tlm_generic_payload& payload, sc_core::sc_time& delay);
  void read(Message& message);
  void on_delivered(Message& message) override;

  Fabric& fabric_;
  std::uint8_t traffic_class_;
};

/// Serves a blocking target from the fabric, one access after the other in order of arrival: a write when its tail is
/// here, a read request when its head is here. The buffer of the bytes is held while the target waits or annotates
/// delay, so a slow target slows its senders. A message has arrived when the target has taken its last byte. A target
/// that answers with an error ends the simulation with an error report.
class TargetAdapter : public Endpoint {
 public:
  TargetAdapter(sc_core::sc_module_name name, Assembly& fabric, Window window);

  tlm_utils::simple_initiator_socket<TargetAdapter> socket{"socket"};

  bool needs_trains() const override { return true; }

 protected:
  void receive(Transaction& transaction) override;
  void on_own_event(std::uint32_t tag, std::uint64_t data) override;

 private:
  static constexpr std::uint32_t kArriveTag = kFirstEndpointTag;
  void serve_target();
  void access(Transaction& transaction);

  Ring<Transaction*> arrived_;
  sc_core::sc_event work_;
  std::vector<unsigned char> zeros_;
};

}  // namespace railyard::transport
