// One direction of a link: its rate, its latencies, its far-end buffer and how it packs payload into packets. Plain
// data; no SystemC, so that the scenario loader can fill it.
#pragma once

#include <array>
#include <string>

#include "base/units.h"

namespace railyard::transport {

/// What a transaction does at its destination. A multicast is a write that a switch copies to every member of a
/// group. A reduce request is a read that the switch sends to all members; reduce responses are the operands and the
/// result.
enum class TransactionKind : std::uint8_t {
  write,
  read_request,
  read_response,
  multicast,
  reduce_request,
  reduce_response
};
/// A receiver has separate room for each credit type: written data, requests and responses.
enum class CreditType : std::uint8_t { posted, request, response };
constexpr std::size_t kCreditTypes = 3;
constexpr CreditType credit_type_of(TransactionKind kind) {
  if (kind == TransactionKind::read_request) return CreditType::request;
  return kind == TransactionKind::read_response || kind == TransactionKind::reduce_response ? CreditType::response
                                                                                            : CreditType::posted;
}
/// True for a request, which names payload but carries none.
constexpr bool asks(TransactionKind kind) {
  return kind == TransactionKind::read_request || kind == TransactionKind::reduce_request;
}

/// Bytes and packets that one transaction occupies on one link.
struct WireCost {
  Bytes bytes = 0;         ///< payload plus the protocol's overhead
  Bytes first_packet = 0;  ///< wire bytes of its first packet
  Bytes reverse_debt = 0;  ///< acks, DLLPs and credit updates that the receiver owes on the opposite direction
  Bytes credit_bytes = 0;  ///< bytes in the receiver's buffer
  Bytes packets = 0;       ///< packets, each of which needs one of its header credits
};

/// How a protocol packs payload. The protocol folders (nvlink, pcie, infiniband) build formats from their parameters.
struct PacketFormat {
  Bytes max_payload_bytes = 0;        ///< payload per packet; 0: no packetisation (an ideal link)
  Bytes overhead_bytes = 0;           ///< header, framing and CRC per write packet
  Bytes first_overhead_bytes = 0;     ///< added once, to the first packet of a transaction's message (RETH)
  Bytes max_read_request_bytes = 0;   ///< payload requested by one read request packet
  Bytes read_request_bytes = 0;       ///< wire bytes of one read request packet
  Bytes response_payload_bytes = 0;   ///< payload per read completion packet
  Bytes response_overhead_bytes = 0;  ///< overhead per read completion packet
  Bytes reduced_payload_bytes =
      0;  ///< payload per packet of a reduction's operands and result; 0: as a read completion
  Bytes reverse_bytes_per_packet =
      0;                             ///< ack of written packets, owed on the reverse direction (NVLink write response)
  Bytes packets_per_ack = 1;         ///< number of written packets per ack; each packet of a multicast has its own ack
  Bytes reverse_interval_bytes = 0;  ///< wire bytes per flow-control group (PCIe Ack + UpdateFC); 0: none
  Bytes reverse_bytes_per_interval = 0;
  Bytes line_interval_bytes = 0;  ///< share of the data link layer: bytes per interval of the line; 0: none
  Bytes line_bytes_per_interval = 0;
  Bytes credit_unit_bytes =
      0;  ///< buffers count the payload of each packet in whole units of this size (PCIe: 16 B); 0: wire bytes

  /// @param engine_payload_bytes  the sending engine's own packet limit (128 B for an SM store); for a request, the
  /// payload per request; 0: the link's limit
  WireCost cost(TransactionKind kind, Bytes payload, Bytes engine_payload_bytes, bool first_of_message) const;
  bool operator==(const PacketFormat& other) const;
};

/// The amount that a sender can have outstanding on one virtual channel without new credits; 0: unlimited.
struct Room {
  Bytes bytes = 0;
  Bytes packets = 0;
};

/// The limit of a stream's pace: its line, or the round trip of its receiver's buffer or header credits.
enum class PacedBy : std::uint8_t { line, buffer, headers };
/// The amount of a train in the unit of that limit.
constexpr Bytes amount(PacedBy by, const WireCost& cost) {
  return by == PacedBy::line ? cost.bytes : by == PacedBy::buffer ? cost.credit_bytes : cost.packets;
}

/// One direction of a link.
struct LinkDirection {
  Rate rate;
  Time latency;  ///< from the first bit out of the sender until the head can leave the receiver: wire, PHY and receiver
                 ///< pipeline
  Time credit_latency;     ///< return time of a credit: wire and PHY
  Bytes buffer_bytes = 0;  ///< per virtual channel at the far end; 0: unlimited
  std::array<Bytes, kCreditTypes>
      headers{};  ///< packets per virtual channel at the far end, by credit type (PCIe's header credits); 0:
                  ///< unlimited
  bool sinks_responses = false;  ///< the far end reserves room for all its requests: responses need no credit
  PacketFormat packet;

  Time round_trip() const { return latency + credit_latency; }
  Room room(CreditType type) const;
  /// The limit of a long stream of such trains: the line's rate, or buffer or headers per round trip.
  PacedBy pace(CreditType type, const WireCost& train) const;
  /// Number of such trains per second at that limit.
  double trains_per_second(CreditType type, const WireCost& train) const;
  bool operator==(const LinkDirection& other) const;
};

}  // namespace railyard::transport
