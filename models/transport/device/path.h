// Paths, found by asking each device's decoder in turn. Used by --describe, and to compute the automatic transaction
// size and a message's time without contention. Transactions carry no path.
#pragma once

#include <vector>

#include "transport/device/device.h"
#include "transport/link/meter.h"

namespace railyard::transport {

class Endpoint;

struct Hop {
  const Device* device = nullptr;  ///< the sending device
  PortId port;                     ///< egress port of the bytes
  TransactionKind kind = TransactionKind::write;
  bool one_of_several = false;  ///< other ports are equivalent, and the choice is made at run time
  bool answers_reads = false;   ///< read requests cross in the opposite direction, and this direction carries their
                                ///< acks

  const LinkDirection& link() const { return device->port(port).egress.link(); }
};

/// One of the parallel lanes of a message: a plane of NVSwitches, or the only lane.
struct Lane {
  std::vector<Hop> hops;
  std::uint32_t weight = 1;  ///< its share of the bytes, relative to the sum over lanes
};

struct Path {
  std::vector<Lane> lanes;
  Bytes stripe_bytes = 0;  ///< bytes of one lane before the next lane's turn; 0: there is one lane
  Time fixed;              ///< time that is not on links: doorbell, read request, memory, NIC pipeline
  Rate limit;  ///< of the source engine (NIC read tags), reduction slots or a meter; lanes share it by weight; zero:
               ///< none
  Meter* meter = nullptr;              ///< the meter with this rate, if any
  Bytes engine_payload_bytes = 0;      ///< packet limit of written bytes; 0: the links'
  std::vector<Hop> request;            ///< of the packet that asks for a whole RDMA read; empty: another message
  Bytes request_bytes = 0;             ///< bytes per read request; 0: the links'
  Bytes completion_payload_bytes = 0;  ///< packet limit of read bytes; 0: the links'
  /// Bytes of read requests that are sent before the first answer arrives: their acks cross idle lines.
  Bytes asked_ahead_bytes = 0;
  /// A message of at most this size is part of the work request: it takes inline_fixed instead of `fixed` and the first
  /// hops_to_inline hops. 0 hops: no message is inline.
  Bytes inline_bytes = 0;
  std::size_t hops_to_inline = 0;
  Time inline_fixed;
  /// The first hops_to_stage hops end in a staging memory, where each chunk must be complete before it continues; 0
  /// bytes: no staging.
  std::size_t hops_to_stage = 0;
  Bytes chunk_bytes = 0;
  Time chunk_start;  ///< time to start each chunk into the memory, and out of it, if chunks are started one by one
  Bytes smallest_transaction_bytes = 64;

  /// Payload per packet, or per request, of an operation's engine; 0: the links' limit.
  Bytes packet_limit(TransactionKind kind) const {
    if (kind == TransactionKind::read_response) return completion_payload_bytes;
    return kind == TransactionKind::read_request ? request_bytes : engine_payload_bytes;
  }
};

/// The hops from `device` through its port `out` to the home of `address` (and `lid`), or to the switch that cannot
/// decode it.
std::vector<Hop> walk(const Device& device, PortId out, std::uint64_t address, Lid lid,
                      TransactionKind kind = TransactionKind::write);

/// True if no hop's link has failed.
bool is_open(const std::vector<Hop>& hops);

/// Time of a read request's head over these hops, without contention.
Time request_time(const std::vector<Hop>& hops);

/// A read by `requester` through its port `out`, from a memory that answers through `memory_port`. The request's path
/// and the memory's latency are the fixed part; the completion's path gives the hops.
Path read_path(const Endpoint& requester, PortId out, const Endpoint& memory, PortId memory_port, Time memory_latency);

/// The endpoint and port that a walk reaches; no endpoint if no device has the address.
struct Arrival {
  const Endpoint* endpoint = nullptr;
  PortId port;
};
Arrival arrival(const std::vector<Hop>& hops, std::uint64_t address);

/// Payload per transaction: a quarter of a microsecond on the slowest link of the path, at most a quarter of its
/// smallest buffer, in whole packets of its largest packet size, at least one packet.
Bytes automatic_transaction_bytes(const Path& path);

/// Time of a message of `bytes` without contention on this path, by the port rule: a pipeline of transactions over the
/// hops. Exact for writes through switches and endpoints; over NICs to within the acks of a few packets; for a
/// multicast without the acks that meet its source's own copy; for a reduction if its requests are sent before its
/// first operand arrives; for a bounced message to within a chunk's turn-around.
Time uncontended_time(const Path& path, Bytes bytes, Bytes transaction_bytes);

/// Time from the source's write of a message's last byte to the arrival of this byte, without contention on this path.
Time last_byte_time(const Path& path, Bytes transaction_bytes);

/// Payload rate of one hop for back-to-back transactions of this path, in bytes per second.
double payload_rate(const Path& path, const Hop& hop, Bytes transaction_bytes);

/// Payload rate of a long message on this path without contention.
Rate payload_rate(const Path& path, Bytes transaction_bytes);

}  // namespace railyard::transport
