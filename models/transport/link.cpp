#include "transport/link.h"

#include <algorithm>

namespace railyard::transport {

namespace {

WireCost packets_cost(Bytes payload, Bytes per_packet, Bytes overhead, Bytes first_overhead) {
  if (per_packet == 0) return {payload + overhead + first_overhead, 0, 0};
  const Bytes packets = std::max<Bytes>(1, ceil_div(payload, per_packet));
  return {payload + packets * overhead + first_overhead, std::min(payload, per_packet) + overhead + first_overhead, packets};
}

}  // namespace

WireCost PacketFormat::cost(Operation operation, Bytes payload, Bytes engine_payload_bytes, bool first_of_message) const {
  WireCost cost;
  switch (operation) {
    case Operation::write: {
      const bool limited = engine_payload_bytes != 0 && engine_payload_bytes < max_payload_bytes;
      cost = packets_cost(payload, limited ? engine_payload_bytes : max_payload_bytes, overhead_bytes,
                          first_of_message ? first_overhead_bytes : 0);
      break;
    }
    case Operation::read_request: {
      const Bytes requests = max_read_request_bytes == 0 ? 1 : std::max<Bytes>(1, ceil_div(payload, max_read_request_bytes));
      cost = {requests * read_request_bytes, read_request_bytes, requests};
      break;
    }
    case Operation::read_response:
      cost = packets_cost(payload, response_payload_bytes, response_overhead_bytes, 0);
      break;
  }
  // packets_cost leaves the packet count in reverse_debt; turn it into bytes here.
  cost.reverse_debt *= reverse_bytes_per_packet;
  // In proportion, to the nearest byte: whole intervals would spare small transactions what they owe together.
  if (reverse_interval_bytes != 0)
    cost.reverse_debt += (cost.bytes * reverse_bytes_per_interval + reverse_interval_bytes / 2) / reverse_interval_bytes;
  // An operation without wire bytes on an ideal link still takes its place in the order.
  cost.bytes = std::max<Bytes>(1, cost.bytes);
  return cost;
}

}  // namespace railyard::transport
