#include "transport/path.h"

#include <algorithm>
#include <stdexcept>

namespace railyard::transport {

namespace {

constexpr Time kAutomaticDuration = Time::ns(250);
constexpr Bytes kBufferShare = 4;
constexpr std::size_t kMaxHops = 64;

Rate effective_rate(const LinkDirection& link) {
  const Time round_trip = link.round_trip();
  if (link.buffer_bytes == 0 || round_trip == Time()) return link.rate;
  const double windowed = static_cast<double>(link.buffer_bytes) / round_trip.seconds();
  return windowed < static_cast<double>(link.rate.bytes_per_second())
             ? Rate::bytes_per_second(static_cast<std::uint64_t>(windowed))
             : link.rate;
}

Bytes lane_share(const Path& path, const Lane& lane, Bytes bytes) {
  std::uint64_t weights = 0;
  for (const Lane& l : path.lanes) weights += l.weight;
  return ceil_div(bytes * lane.weight, weights);
}

Bytes wire_bytes(const Path& path, const Hop& hop, Bytes bytes, Bytes transaction_bytes) {
  const PacketFormat& packet = hop.link().packet;
  const Bytes whole = bytes / transaction_bytes;
  const Bytes rest = bytes % transaction_bytes;
  Bytes sum = whole * packet.cost(hop.operation, transaction_bytes, path.engine_payload_bytes, false).bytes;
  if (rest != 0 || whole == 0) sum += packet.cost(hop.operation, rest, path.engine_payload_bytes, false).bytes;
  return sum + (hop.operation == Operation::write ? packet.first_overhead_bytes : 0);
}

}  // namespace

std::vector<Hop> walk(const Device& device, PortId out, std::uint64_t address, Lid lid, Operation operation) {
  std::vector<Hop> hops;
  const Device* at = &device;
  while (out.valid()) {
    if (hops.size() == kMaxHops) throw std::logic_error(std::string("routing loop at ") + at->name());
    hops.push_back({at, out, operation});
    const Device::Port& port = at->port(out);
    if (port.peer == nullptr) throw std::logic_error(std::string("unconnected port at ") + at->name());
    at = port.peer;
    out = at->decode(address, lid, port.peer_port);
  }
  return hops;
}

Bytes automatic_transaction_bytes(const Path& path) {
  Bytes bytes = ~Bytes(0);
  Bytes packet = path.smallest_transaction_bytes;
  for (const Lane& lane : path.lanes) {
    for (const Hop& hop : lane.hops) {
      const LinkDirection& link = hop.link();
      bytes = std::min(bytes, link.rate.bytes_in(kAutomaticDuration));
      if (link.buffer_bytes != 0) bytes = std::min(bytes, link.buffer_bytes / kBufferShare);
      packet = std::max(packet, link.packet.max_payload_bytes);
    }
  }
  return std::max(bytes, packet);
}

Time uncontended_time(const Path& path, Bytes bytes, Bytes transaction_bytes) {
  Time longest;
  for (const Lane& lane : path.lanes) {
    const Bytes share = lane_share(path, lane, bytes);
    Time latency, transfer;
    Rate into;
    for (const Hop& hop : lane.hops) {
      const LinkDirection& link = hop.link();
      latency += link.latency;
      const Bytes wire = wire_bytes(path, hop, share, transaction_bytes);
      transfer = later(transfer, effective_rate(link).time_for(wire));
      if (into != Rate() && into < link.rate)  // store the first packet, then cut through
        latency += into.time_for(link.packet.cost(hop.operation, std::min(share, transaction_bytes), path.engine_payload_bytes, true).first_packet);
      into = link.rate;
    }
    if (path.limit != Rate()) transfer = later(transfer, path.limit.time_for(share));
    longest = later(longest, latency + transfer);
  }
  return path.fixed + longest;
}

Rate payload_rate(const Path& path, Bytes transaction_bytes) {
  double sum = 0;
  for (const Lane& lane : path.lanes) {
    double slowest = path.limit != Rate() ? static_cast<double>(path.limit.bytes_per_second()) : 1e18;
    for (const Hop& hop : lane.hops) {
      const Bytes wire = hop.link().packet.cost(hop.operation, transaction_bytes, path.engine_payload_bytes, false).bytes;
      slowest = std::min(slowest, static_cast<double>(effective_rate(hop.link()).bytes_per_second()) *
                                      static_cast<double>(transaction_bytes) / static_cast<double>(wire));
    }
    sum += slowest;
  }
  return Rate::bytes_per_second(static_cast<std::uint64_t>(sum));
}

}  // namespace railyard::transport
