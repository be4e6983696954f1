// What one direction of a link is: its rate, its latencies, its far-end buffer and how it packs payload into packets.
// Plain data; no SystemC, so that the scenario loader can fill it.
#pragma once

#include <array>
#include <string>

#include "base/units.h"

namespace railyard::transport {

/// What a transaction does at its destination. A multicast is a write that a switch copies to every member of a group; a
/// reduce request is a read that it fans out to them, and reduce responses are its operands and, one, its result.
enum class Operation : std::uint8_t { write, read_request, read_response, multicast, reduce_request, reduce_response };
/// A receiver's room is counted apart for each of these: what is written, what is asked for and what answers.
enum class Flow : std::uint8_t { posted, request, response };
constexpr std::size_t kFlows = 3;
constexpr Flow flow_of(Operation operation) {
  if (operation == Operation::read_request) return Flow::request;
  return operation == Operation::read_response || operation == Operation::reduce_response ? Flow::response
                                                                                          : Flow::posted;
}
/// A request names payload and carries none.
constexpr bool asks(Operation operation) {
  return operation == Operation::read_request || operation == Operation::reduce_request;
}

/// Bytes and packets that one transaction occupies on one link.
struct WireCost {
  Bytes bytes = 0;         ///< payload plus the protocol's overhead
  Bytes first_packet = 0;  ///< wire bytes of its first packet
  Bytes reverse_debt = 0;  ///< acks, DLLPs and credit updates the receiver owes on the other direction
  Bytes credit_bytes = 0;  ///< of the receiver's buffer
  Bytes packets = 0;       ///< of its header credits, one each
};

/// How a protocol packs payload. The protocol rooms (nvlink, pcie, infiniband) make these from their parameters.
struct PacketFormat {
  Bytes max_payload_bytes = 0;        ///< payload per packet; 0: no packetisation (an ideal link)
  Bytes overhead_bytes = 0;           ///< header, framing and CRC per write packet
  Bytes first_overhead_bytes = 0;     ///< added once, to the first packet of a transaction's message (RETH)
  Bytes max_read_request_bytes = 0;   ///< payload asked for by one read request packet
  Bytes read_request_bytes = 0;       ///< wire bytes of one read request packet
  Bytes response_payload_bytes = 0;   ///< payload per read completion packet
  Bytes response_overhead_bytes = 0;  ///< overhead per read completion packet
  Bytes reduced_payload_bytes =
      0;  ///< payload per packet of a reduction's operands and result; 0: as a read completion
  Bytes reverse_bytes_per_packet =
      0;                             ///< ack of written packets, owed on the reverse direction (NVLink write response)
  Bytes packets_per_ack = 1;         ///< how many written packets share one; packets of a multicast have one each
  Bytes reverse_interval_bytes = 0;  ///< one flow-control group per so many wire bytes (PCIe Ack + UpdateFC); 0: none
  Bytes reverse_bytes_per_interval = 0;
  Bytes line_interval_bytes = 0;  ///< the data link layer's own share of the line: so many bytes per interval; 0: none
  Bytes line_bytes_per_interval = 0;
  Bytes credit_unit_bytes =
      0;  ///< buffers count payload, each packet's in whole such units (PCIe: 16 B); 0: wire bytes

  /// @param engine_payload_bytes  the sending engine's own packet limit (an SM store's 128 B), of a request the payload that
  ///                              one asks for; 0: the link's
  WireCost cost(Operation operation, Bytes payload, Bytes engine_payload_bytes, bool first_of_message) const;
  bool operator==(const PacketFormat& other) const;
};

/// What a sender may be ahead of a receiver's credits on one channel; 0: ample.
struct Room {
  Bytes bytes = 0;
  Bytes packets = 0;
};

/// What sets the pace of a stream: its line, or how fast its receiver's buffer or header credits come round.
enum class PacedBy : std::uint8_t { line, buffer, headers };
/// A train's part in that.
constexpr Bytes amount(PacedBy by, const WireCost& cost) {
  return by == PacedBy::line ? cost.bytes : by == PacedBy::buffer ? cost.credit_bytes : cost.packets;
}

/// One direction of a link.
struct LinkDirection {
  Rate rate;
  Time latency;  ///< first bit out of the sender to head able to leave the receiver: wire, PHY and receiver pipeline
  Time credit_latency;     ///< a credit's way back: wire and PHY
  Bytes buffer_bytes = 0;  ///< per virtual channel at the far end; 0: ample
  std::array<Bytes, kFlows>
      headers{};                 ///< packets it takes per virtual channel, by flow (PCIe's header credits); 0: ample
  bool sinks_responses = false;  ///< the far end has kept room for whatever it asked for: responses need no credit
  PacketFormat packet;

  Time round_trip() const { return latency + credit_latency; }
  Room room(Flow flow) const;
  /// What sets the pace of a long stream of trains like this one: the line's rate, or buffer or headers per round trip.
  PacedBy pace(Flow flow, const WireCost& train) const;
  /// Trains like this one in a second, at that pace.
  double trains_per_second(Flow flow, const WireCost& train) const;
  bool operator==(const LinkDirection& other) const;
};

}  // namespace railyard::transport
