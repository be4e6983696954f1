// Shared data of all ports on the same kind of link: the link, the rules for its virtual channels, and recent answers
// to frequent queries of ports. A fabric of thousands of ports has only a few kinds. Sharing keeps the data that a
// transaction touches on its path small enough for the cache.
#pragma once

#include <algorithm>
#include <array>
#include <deque>

#include "transport/link/byte_clock.h"
#include "transport/link/link.h"
#include "transport/link/traffic_class.h"

namespace railyard::transport {

struct PortKind {
  PortKind(const LinkDirection& direction, const VcPlan& vcs)
      : link(direction), plan(vcs), line(direction.rate), debt(line) {
    for (std::size_t f = 0; f < kCreditTypes; ++f) windows_[f] = Window(link, static_cast<CreditType>(f));
    for (std::size_t vc = 0; vc < kVirtualChannels; ++vc) vcs_at[plan.priority[vc]] |= 1u << vc;
    one_priority = vcs_at[0] == (1u << kVirtualChannels) - 1;
  }

  /// Wire bytes of a transaction; `first_of_message` as in PacketFormat::cost().
  const WireCost& cost(TransactionKind kind, Bytes payload, Bytes engine_payload_bytes, bool first_of_message) {
    Cost& last = costs_[(static_cast<std::size_t>(kind) * 2 + (first_of_message ? 1 : 0)) % costs_.size()];
    if (payload != last.payload || kind != last.kind || first_of_message != last.first_of_message ||
        engine_payload_bytes != last.engine_payload_bytes) {
      last = {link.packet.cost(kind, payload, engine_payload_bytes, first_of_message), payload, engine_payload_bytes,
              kind, first_of_message};
    }
    return last.cost;
  }
  Time packet_time(Bytes bytes) {
    if (bytes != packet_bytes_) {
      packet_bytes_ = bytes;
      packet_time_ = link.rate.time_for(bytes);
    }
    return packet_time_;
  }

  /// A receiver's room for a credit type, and the time of its round trip if this can limit more than the line.
  struct Window {
    Window() = default;
    Window(const LinkDirection& link, CreditType type)
        : room(link.room(type)), paced_by_bytes(room.bytes != 0 && link.rate.time_for(room.bytes) < link.round_trip()) {
      if (paced_by_bytes) by_bytes = BytePrice(link.round_trip().fs(), room.bytes);
      if (room.packets != 0) by_packets = BytePrice(std::max<std::uint64_t>(1, link.round_trip().fs()), room.packets);
    }
    Room room;
    bool paced_by_bytes = false;
    BytePrice by_bytes, by_packets;
  };
  Window& window(std::uint8_t vc) {
    const CreditType type = vc < kRequestVc    ? CreditType::posted
                            : vc == kRequestVc ? CreditType::request
                                               : CreditType::response;
    return windows_[static_cast<std::size_t>(type)];
  }

  const LinkDirection link;
  const VcPlan plan;
  std::array<std::uint32_t, kPriorities> vcs_at{};  ///< bit per virtual channel, by priority
  bool one_priority = true;                         ///< all virtual channels have the lowest priority
  BytePrice line;
  BytePrice debt;  ///< the same line, for acks and DLLPs

 private:
  struct Cost {
    WireCost cost;
    Bytes payload = ~Bytes(0);
    Bytes engine_payload_bytes = 0;
    TransactionKind kind = TransactionKind::write;
    bool first_of_message = false;
  };
  std::array<Cost, 8> costs_;  ///< the latest cost per operation, for a message's first transaction and for the rest
  std::array<Window, kCreditTypes> windows_;
  Bytes packet_bytes_ = 0;
  Time packet_time_;
};

/// All kinds of ports of one fabric.
class PortKinds {
 public:
  PortKind& of(const LinkDirection& link, const VcPlan& plan) {
    const auto found =
        std::find_if(kinds_.begin(), kinds_.end(), [&](const PortKind& k) { return k.link == link && k.plan == plan; });
    return found != kinds_.end() ? *found : kinds_.emplace_back(link, plan);
  }

 private:
  std::deque<PortKind> kinds_;
};

}  // namespace railyard::transport
