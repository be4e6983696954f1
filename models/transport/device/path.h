// Paths, found by asking each device's decoder in turn: what --describe shows, what the automatic transaction size and the
// uncontended time of a message are computed from. Transactions themselves carry no path.
#pragma once

#include <vector>

#include "transport/device/device.h"
#include "transport/link/meter.h"

namespace railyard::transport {

class Endpoint;

struct Hop {
  const Device* device = nullptr;  ///< whose
  PortId port;                     ///< egress the bytes cross
  Operation operation = Operation::write;
  bool one_of_several = false;  ///< others are as good, and the choice is made on the way
  bool answers_reads = false;   ///< read requests cross the other way and owe it their acks

  const LinkDirection& link() const { return device->port(port).egress.link(); }
};

/// One of the parallel ways of a message: a plane of NVSwitches, or the only way there is.
struct Lane {
  std::vector<Hop> hops;
  std::uint32_t weight = 1;  ///< its share of the bytes, of the sum over lanes
};

struct Path {
  std::vector<Lane> lanes;
  Bytes stripe_bytes = 0;  ///< what one lane takes before the next one's turn; 0: there is one lane
  Time fixed;              ///< turn-arounds that are no link's: doorbell, read request out, memory, NIC pipeline
  Rate
      limit;  ///< of the source engine (NIC read tags), reduction slots or a meter; lanes share it by weight; zero: none
  Meter* meter = nullptr;              ///< whose rate the limit is, if any
  Bytes engine_payload_bytes = 0;      ///< of what the source writes, per packet; 0: the links'
  Bytes request_bytes = 0;             ///< of what is read, asked for per request; 0: the links'
  Bytes completion_payload_bytes = 0;  ///< of what is read, per packet; 0: the links'
  /// Read requests for so many bytes are out before the first answer comes: their acks cross idle lines.
  Bytes asked_ahead_bytes = 0;
  /// A message of at most so many bytes is part of the work request: instead of `fixed` and the first so many hops, it takes
  /// inline_fixed. 0 hops: no message is.
  Bytes inline_bytes = 0;
  std::size_t hops_to_inline = 0;
  Time inline_fixed;
  /// The first so many hops end in a memory on the way, where chunks are whole before they go on; 0 bytes: nothing is staged.
  std::size_t hops_to_stage = 0;
  Bytes chunk_bytes = 0;
  Time chunk_start;  ///< of each chunk's way in, and on, where they are started one by one
  Bytes smallest_transaction_bytes = 64;

  /// Payload per packet, or per request, of an operation's engine; 0: as the links have it.
  Bytes packet_limit(Operation operation) const {
    if (operation == Operation::read_response) return completion_payload_bytes;
    return operation == Operation::read_request ? request_bytes : engine_payload_bytes;
  }
};

/// The hops from `device` through its port `out` to wherever `address` (and `lid`) is at home, or to the switch where it turns
/// out to be nobody's.
std::vector<Hop> walk(const Device& device, PortId out, std::uint64_t address, Lid lid,
                      Operation operation = Operation::write);

/// Whether every hop's link is there.
bool is_open(const std::vector<Hop>& hops);

/// A read by `requester`, asked through its port `out`, of a memory that answers through `memory_port`: the request's way out
/// and the memory's latency are the fixed part, the completion's way back the hops.
Path read_path(const Endpoint& requester, PortId out, const Endpoint& memory, PortId memory_port, Time memory_latency);

/// The endpoint that the bytes of a walk reach and its port there; no endpoint where the address is nobody's.
struct Arrival {
  const Endpoint* endpoint = nullptr;
  PortId port;
};
Arrival arrival(const std::vector<Hop>& hops, std::uint64_t address);

/// Payload per transaction: a quarter of a microsecond of the slowest link of the path, at most a quarter of its smallest
/// buffer, in whole packets of its largest packet size, at least one.
Bytes automatic_transaction_bytes(const Path& path);

/// What a message of `bytes` takes alone on this path, by the port rule: a pipeline of transactions over the hops. Exact for
/// writes through switches and endpoints; over NICs to within the acks of a few packets, of a multicast without those that its
/// source's own copy meets, of a reduction while its requests are out before its first operand is there, of what bounces to
/// within a chunk's turn-around.
Time uncontended_time(const Path& path, Bytes bytes, Bytes transaction_bytes);

/// From the instant at which the source has written the last byte of a message, alone on this path, until that byte lands.
Time last_byte_time(const Path& path, Bytes transaction_bytes);

/// Payload that one hop passes of transactions of this path, one after another, in bytes per second.
double payload_rate(const Path& path, const Hop& hop, Bytes transaction_bytes);

/// Payload rate of a long message alone on this path.
Rate payload_rate(const Path& path, Bytes transaction_bytes);

}  // namespace railyard::transport
