#include "transport/link/link.h"

#include <algorithm>
#include <tuple>

namespace railyard::transport {

namespace {

struct Packets {
  Bytes bytes = 0, first = 0;  ///< wire bytes
  Bytes count = 0;
  Bytes credited = 0;  ///< payload in credit units
};

Packets packed(Bytes payload, Bytes per_packet, Bytes overhead, Bytes first_overhead, Bytes credit_unit) {
  if (per_packet == 0) return {payload + overhead + first_overhead, 0, 0, 0};
  const Bytes packets = std::max<Bytes>(1, ceil_div(payload, per_packet));
  const auto in_units = [&](Bytes bytes) { return credit_unit == 0 ? 0 : ceil_div(bytes, credit_unit) * credit_unit; };
  return {payload + packets * overhead + first_overhead, std::min(payload, per_packet) + overhead + first_overhead,
          packets, (packets - 1) * in_units(per_packet) + in_units(payload - (packets - 1) * per_packet)};
}

/// The smaller of both limits, if the engine has one.
Bytes limited(Bytes bytes, Bytes engine_bytes) {
  return engine_bytes != 0 && engine_bytes < bytes ? engine_bytes : bytes;
}

/// In proportion, to the nearest byte. Whole intervals would charge nothing to small transactions.
Bytes per_interval(Bytes bytes, Bytes interval, Bytes each) {
  return interval == 0 ? 0 : (bytes * each + interval / 2) / interval;
}

/// All members in the order of declaration. The size check below fails if a new member is missing here.
auto members(const PacketFormat& p) {
  static_assert(sizeof(PacketFormat) == 15 * sizeof(Bytes));
  return std::tie(p.max_payload_bytes, p.overhead_bytes, p.first_overhead_bytes, p.max_read_request_bytes,
                  p.read_request_bytes, p.response_payload_bytes, p.response_overhead_bytes, p.reduced_payload_bytes,
                  p.reverse_bytes_per_packet, p.packets_per_ack, p.reverse_interval_bytes, p.reverse_bytes_per_interval,
                  p.line_interval_bytes, p.line_bytes_per_interval, p.credit_unit_bytes);
}
auto members(const LinkDirection& l) {
  static_assert(sizeof(LinkDirection) ==
                sizeof(Rate) + 2 * sizeof(Time) + (2 + kCreditTypes) * sizeof(Bytes) + sizeof(PacketFormat));
  return std::tie(l.rate, l.latency, l.credit_latency, l.buffer_bytes, l.headers, l.sinks_responses, l.packet);
}

}  // namespace

bool PacketFormat::operator==(const PacketFormat& other) const { return members(*this) == members(other); }
bool LinkDirection::operator==(const LinkDirection& other) const { return members(*this) == members(other); }

WireCost PacketFormat::cost(TransactionKind kind, Bytes payload, Bytes engine_payload_bytes,
                            bool first_of_message) const {
  Packets packets;
  WireCost cost;
  switch (kind) {
    case TransactionKind::write:
    case TransactionKind::multicast:
      packets = packed(payload, limited(max_payload_bytes, engine_payload_bytes), overhead_bytes,
                       first_of_message ? first_overhead_bytes : 0, credit_unit_bytes);
      cost.reverse_debt =
          per_interval(packets.count, kind == TransactionKind::write ? packets_per_ack : 1, reverse_bytes_per_packet);
      break;
    case TransactionKind::read_request:
    case TransactionKind::reduce_request: {
      const Bytes each = limited(max_read_request_bytes, engine_payload_bytes);
      packets.count = each == 0 ? 1 : std::max<Bytes>(1, ceil_div(payload, each));
      packets.bytes = packets.count * read_request_bytes;
      packets.first = read_request_bytes;
      break;
    }
    case TransactionKind::read_response:
      packets = packed(payload, limited(response_payload_bytes, engine_payload_bytes), response_overhead_bytes, 0,
                       credit_unit_bytes);
      break;
    case TransactionKind::reduce_response:
      packets = packed(payload, reduced_payload_bytes != 0 ? reduced_payload_bytes : response_payload_bytes,
                       response_overhead_bytes, 0, credit_unit_bytes);
      break;
  }
  cost.reverse_debt += per_interval(packets.bytes, reverse_interval_bytes, reverse_bytes_per_interval);
  const auto with_line_share = [&](Bytes bytes) {
    return bytes + per_interval(bytes, line_interval_bytes, line_bytes_per_interval);
  };
  // An operation without wire bytes on an ideal link still needs a place in the order of trains.
  cost.bytes = std::max<Bytes>(1, with_line_share(packets.bytes));
  cost.first_packet = with_line_share(packets.first);
  cost.reverse_debt = with_line_share(cost.reverse_debt);
  cost.credit_bytes = credit_unit_bytes == 0 ? cost.bytes : packets.credited;
  cost.packets = packets.count;
  return cost;
}

Room LinkDirection::room(CreditType type) const {
  if (type == CreditType::response && sinks_responses) return {};
  return {buffer_bytes, headers[static_cast<std::size_t>(type)]};
}

PacedBy LinkDirection::pace(CreditType type, const WireCost& train) const {
  const Room r = room(type);
  const double round = round_trip().seconds();
  double longest = static_cast<double>(train.bytes) / static_cast<double>(rate.bytes_per_second());
  PacedBy by = PacedBy::line;
  const auto try_credits = [&](PacedBy which, Bytes credits) {
    if (credits == 0) return;
    const double takes = static_cast<double>(amount(which, train)) * round / static_cast<double>(credits);
    if (takes <= longest) return;
    longest = takes;
    by = which;
  };
  try_credits(PacedBy::buffer, r.bytes);
  try_credits(PacedBy::headers, r.packets);
  return by;
}

double LinkDirection::trains_per_second(CreditType type, const WireCost& train) const {
  const PacedBy by = pace(type, train);
  const auto each = static_cast<double>(amount(by, train));
  if (by == PacedBy::line) return static_cast<double>(rate.bytes_per_second()) / each;
  const Room r = room(type);
  return static_cast<double>(by == PacedBy::buffer ? r.bytes : r.packets) / round_trip().seconds() / each;
}

}  // namespace railyard::transport
