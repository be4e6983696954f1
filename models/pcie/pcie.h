// The room `pcie` has the Protocol of PCIe's packets, PlxSwitch and RootComplex, which route by address, CopyEngine,
// which moves one chunk at a time, and HostMemory, through whose staging buffer messages bounce where GPUs have no peer
// access. The machine builds them; GPUs and NICs are at their ports.
//
// PCIe: what the protocol adds to transport, and its two routing devices.
//
// TLP overheads are those of pcie-bench (pcie-model, model/pcie.py): 24 B for a posted write or a read request with
// 64-bit addresses, 20 B for a completion, including framing, sequence number and LCRC; one Ack and one UpdateFC DLLP
// per 150-180 B of traffic in the reverse direction.
//
// Flow control has separate credits for posted packets (writes), non-posted packets (read requests) and completions:
// credits for headers and, except for read requests, for data (transport::LinkDirection). Read requests never delay the
// other two, and endpoints always accept completions.
#pragma once

#include "transport/device/switch.h"

namespace railyard::pcie {

struct Protocol {
  Bytes write_overhead_bytes = 24;
  Bytes read_request_bytes = 24;
  Bytes completion_overhead_bytes = 20;
  Bytes max_payload_bytes = 256;
  Bytes max_read_request_bytes = 4096;
  Bytes dllp_interval_bytes = 168;
  Bytes dllp_bytes = 16;         ///< per interval
  Bytes credit_unit_bytes = 16;  ///< a data credit is four double words (PCI Express base specification, 2.6.1)

  transport::PacketFormat packet_format() const;
};

/// A PLX (PEX) switch. Trains to peers below it are decoded by memory window; all other trains go upstream. With access
/// control services (ACS: request and completion redirect, needed by virtual machines and often left on by firmware),
/// all trains from below go upstream, and trains to a peer turn round in the root complex: up and down the same link.
class PlxSwitch : public transport::Switch {
 public:
  PlxSwitch(sc_core::sc_module_name name, transport::FabricContext& context, bool acs)
      : Switch(name, context, DecodeBy::window), acs_(acs) {}

  void set_uplink(PortId port) {
    uplink_ = port;
    decoder().set_default(port);
  }
  PortId decode(std::uint64_t address, transport::Lid lid, PortId ingress) const override {
    return acs_ && ingress != uplink_ ? uplink_ : Switch::decode(address, lid, ingress);
  }

 private:
  PortId uplink_;
  bool acs_;
};

/// One socket's root complex: root ports towards the PLX switches and the link to the other socket.
class RootComplex : public transport::Switch {
 public:
  RootComplex(sc_core::sc_module_name name, transport::FabricContext& context)
      : Switch(name, context, DecodeBy::window) {}
};

}  // namespace railyard::pcie
