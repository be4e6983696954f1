// PCIe: what the protocol adds to transport, and its two routing devices. TLP overheads are those of pcie-bench
// (pcie-model, model/pcie.py): 24 B for a posted write or a read request with 64-bit addresses, 20 B for a completion,
// framing, sequence number and LCRC included; one Ack and one UpdateFC DLLP per 150-180 B of traffic on the reverse direction.
#pragma once

#include "transport/switch.h"

namespace railyard::pcie {

struct Protocol {
  Bytes write_overhead_bytes = 24;
  Bytes read_request_bytes = 24;
  Bytes completion_overhead_bytes = 20;
  Bytes max_payload_bytes = 256;
  Bytes max_read_request_bytes = 4096;
  Bytes dllp_interval_bytes = 168;
  Bytes dllp_bytes = 16;  ///< per interval

  transport::PacketFormat packet_format() const;
};

/// A PLX (PEX) switch: peers below it are decoded by memory window, everything else goes upstream.
class PlxSwitch : public transport::Switch {
 public:
  PlxSwitch(sc_core::sc_module_name name, transport::FabricContext& context) : Switch(name, context, DecodeBy::window) {}
};

/// One socket's root complex: root ports towards the PLX switches and the link to the other socket.
class RootComplex : public transport::Switch {
 public:
  RootComplex(sc_core::sc_module_name name, transport::FabricContext& context) : Switch(name, context, DecodeBy::window) {}
};

}  // namespace railyard::pcie
