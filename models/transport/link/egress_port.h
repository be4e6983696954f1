// The room `link` has the port rule in plain C++: EgressPort decides which transaction starts when; CreditWindow has
// the buffer at the far end, RequesterSet the order of requesters, ByteClock exact times of bytes, Meter a shared
// limit, PortCounters and ChargeLog what was used. PacketFormat and LinkDirection describe a protocol and a link.
// Devices own ports.
//
// The port rule: when a transaction can start on a link, which transaction is chosen, its cost and its arrival. The
// rule is the same for all protocols. Plain C++ without SystemC, so tests can check every boundary to one femtosecond.
//
// b = wire bytes, R = line rate, D = b/R, L = latency, W = buffer per virtual channel at the far end, RTT = latency
// plus credit latency, Rv = min(R, W/RTT). If the far end also counts packets (PCIe's header credits, H per virtual
// channel), they are a second window besides W: a train of n packets takes at least n RTT/H, and starts while fewer
// than H are outstanding.
//  1. Eligible at T: its head is here; it is the front of its (requester, virtual channel) queue; outstanding < W + the
//     virtual channel's largest train so far (the same as outstanding <= W with W counted in whole trains); T >= pace
//     of its virtual channel; T >= free of its priority; if a lower priority is being charged, T is one of its packet
//     boundaries.
//  2. Chosen at T, never earlier: highest priority, then deficit round robin over virtual channels by weight in wire
//     bytes, then round robin over requesters, also fair in wire bytes. A virtual channel without credit never blocks
//     the port.
//  3. The start s = T charges only line time, even if the tail arrives slowly: free[q] = max(free[q], s) + D, q <= p.
//  4. The train arrives over [s + L, max(s + b/Rv, tail here) + L].
//  5. A started train is never re-timed. Its credit returns when its tail leaves the next device, plus credit latency.
//
// Because a train only charges the line instead of holding it, a fast flow can use the time that a slow upstream
// leaves. W is counted in whole trains, so a small window gives exactly W/RTT at any train size: in this model credit
// returns per train, in hardware per packet.
#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "base/index.h"
#include "transport/link/credit_window.h"
#include "transport/link/port_kind.h"
#include "transport/link/requesters.h"

namespace railyard::transport {

struct Crossing {
  Time head, first_packet, tail;  ///< at the next device
  Time leaves;                    ///< the tail leaves this device at this time
  Time line_free;                 ///< the line is free again for the train's priority
  Time owed;                      ///< line time of acks and flow control in front of the train
  Bytes wire_bytes = 0;           ///< on this link
  Bytes credit_bytes = 0;         ///< in the far buffer
};

class EgressPort {
 public:
  EgressPort() = default;
  /// @param kind  must outlive the port
  explicit EgressPort(PortKind& kind) : kind_(&kind) {}

  // -- waiting requesters
  /// The front of a requester waits for the port. An idle port forgets its turns, so its behaviour depends only on the
  /// traffic since it was last quiet. @return true if the port was idle and all credit of the virtual channel was
  /// returned
  bool add(std::uint8_t vc, std::uint32_t requester, Time now);
  bool waiting() const { return waiting_vcs_ != 0; }
  std::vector<std::uint32_t> requesters(std::uint8_t vc) const {
    return used(vc) != nullptr ? used(vc)->waiting.all() : std::vector<std::uint32_t>();
  }
  bool waiting(std::uint8_t vc) const { return (waiting_vcs_ >> vc & 1u) != 0; }

  // -- the choice
  struct Choice {
    bool found = false;
    std::uint8_t vc = 0;
    std::uint32_t requester = 0;
    Bytes wire_bytes = 0;
    Time retry =
        Time::max();  ///< not found: the earliest instant at which another choice can succeed; max: after a credit
  };
  /// @param cost_of  cost of the front transaction of (virtual channel, requester) on this link
  template <class CostOf>
  Choice choose(Time now, CostOf&& cost_of);

  /// Uses the turn of the chosen requester. @pre chosen at `now`
  void remove(const Choice& choice, Time now);
  /// Charges the port. @pre the choice was made at `now`; @param tail_here time at which its tail is (or was) here
  Crossing start(std::uint8_t vc, Time now, const WireCost& cost, Time tail_here);

  // -- credits and debts
  /// Returns a credit whose tail left the next device at `left`. @return the time from which it is usable: left +
  /// credit latency
  Time credit(std::uint8_t vc, Bytes bytes, Bytes packets, Time left);
  /// True once after a virtual channel lacked credit with no return in flight.
  bool starved(std::uint8_t vc) {
    const bool was = starved_ >> vc & 1u;
    starved_ &= static_cast<std::uint16_t>(~(1u << vc));
    return was;
  }
  /// Adds acks and flow control that this direction sends for data received on the opposite direction.
  void owe(Bytes bytes) { debt_ += bytes; }

  /// The first instant at which nothing waits, the line is free, nothing is owed and every credit is returned, so that
  /// earlier traffic does not affect later traffic. It assumes no new traffic and can be in the past. max: a train
  /// waits or holds credit.
  Time quiet_from(Time now);

  /// The link fails: no train starts any more, and the caller must take back all that wait.
  void fail();
  bool failed() const { return failed_; }
  /// Trains that start from now on cross a link of this kind; current charges keep their times.
  void become(PortKind& kind);
  PortKind& kind() const { return *kind_; }
  const LinkDirection& link() const { return kind_->link; }
  Time free(std::uint8_t priority = 0) const { return free_[priority]; }
  Bytes outstanding(std::uint8_t vc) const;
  /// Upper limit of outstanding(): the buffer plus two of the virtual channel's largest trains, because W is counted in
  /// whole trains and a train can start while less than that is outstanding.
  Bytes most_outstanding(std::uint8_t vc) const;
  /// Outstanding bytes after every credit in flight has returned.
  Bytes unreturned(std::uint8_t vc) const;
  /// The same for packets, if the far end counts them.
  Bytes packets_outstanding(std::uint8_t vc) const;
  Bytes most_packets_outstanding(std::uint8_t vc) const;
  Bytes packets_unreturned(std::uint8_t vc) const;

 private:
  struct Headers {
    CreditWindow credit;
    Bytes largest = 0;        ///< largest number of packets of a train since all credit was returned
    std::uint64_t carry = 0;  ///< remainder of the stream at H/RTT
  };
  struct VcState {
    RequesterSet waiting;
    CreditWindow credit;
    Bytes largest = 0;  ///< largest train since all credit was returned
    Bytes deficit = 0;
    Time pace;
    Time served_at;
    std::uint64_t window_carry = 0;    ///< remainder of the stream at b/Rv
    std::unique_ptr<Headers> headers;  ///< null: the far end does not count packets
  };
  /// The first virtual channel in use is stored in the port, because most ports use only one virtual channel.
  VcState& state(std::uint8_t vc) {
    if (vc == lead_) return lead_state_;
    return (used_ >> vc & 1u) != 0 ? *(*others_)[vc] : first_use(vc);
  }
  /// Null if the virtual channel was never used.
  const VcState* used(std::uint8_t vc) const {
    if (vc == lead_) return &lead_state_;
    return (used_ >> vc & 1u) != 0 ? (*others_)[vc].get() : nullptr;
  }
  VcState& first_use(std::uint8_t vc);
  /// Called when the port was idle.
  void forget_turns();

  VcState& made(VcState& state, std::uint8_t vc);
  /// The instant at which every credit of a virtual channel is returned; max: some return is not in flight yet.
  static Time settled_from(VcState& state, Time now);
  /// The instant at which this virtual channel's front has credit; max if this needs a credit that is not in flight
  /// yet.
  Time credit_time(std::uint8_t vc, VcState& state, const WireCost& cost, Time now);
  /// The next packet boundary of the current charge below `priority`.
  Time next_packet_boundary(std::size_t priority, Time now) const;

  static constexpr std::uint8_t kNoVc = kVirtualChannels;

  // Members that every transaction touches come first.
  PortKind* kind_ = nullptr;
  std::uint16_t used_ = 0, waiting_vcs_ = 0, starved_ = 0, had_deficit_ = 0;  ///< a bit per virtual channel
  std::uint8_t turn_ = 0;                                                     ///< deficit round robin pointer
  std::uint8_t lead_ = kNoVc;                                                 ///< the first virtual channel used
  bool failed_ = false;
  std::array<Time, kPriorities> free_{};
  std::uint64_t line_carry_ = 0;
  Bytes debt_ = 0;
  Bytes quantum_ =
      0;  ///< the largest train since the port was idle, so that each round serves at least one virtual channel
  VcState lead_state_;
  std::unique_ptr<std::array<std::unique_ptr<VcState>, kVirtualChannels>>
      others_;  ///< null: at most one virtual channel is in
                ///< use
  struct Grid {
    Time from, packet;
  };
  std::array<Grid, kPriorities> grid_{};  ///< packet boundaries of the latest charge, by its priority
};

template <class CostOf>
EgressPort::Choice EgressPort::choose(Time now, CostOf&& cost_of) {
  Choice choice;
  // A virtual channel without waiting trains loses its deficit when other virtual channels are served.
  for (std::uint32_t gone = had_deficit_ & ~waiting_vcs_; gone != 0; gone &= gone - 1)
    state(static_cast<std::uint8_t>(__builtin_ctz(gone))).deficit = 0;
  had_deficit_ &= waiting_vcs_;
  for (int p = static_cast<int>(kPriorities) - 1; p >= 0; --p) {
    std::uint32_t left = waiting_vcs_ & kind_->vcs_at[p];
    if (left == 0) continue;
    if (now < free_[p]) {  // every lower priority is charged at least until then
      choice.retry = sooner(choice.retry, free_[p]);
      break;
    }
    if (p > 0 && now < free_[0]) {
      const Time boundary = next_packet_boundary(static_cast<std::size_t>(p), now);
      if (now < boundary) {
        choice.retry = sooner(choice.retry, boundary);
        break;
      }
    }
    std::uint32_t eligible = 0;
    std::array<Bytes, kVirtualChannels> bytes;  // of the virtual channels in `left`
    std::array<std::uint32_t, kVirtualChannels> requester;
    for (; left != 0; left &= left - 1) {
      const auto vc = static_cast<std::uint8_t>(__builtin_ctz(left));
      VcState& c = state(vc);
      requester[vc] = c.waiting.next([&](std::uint32_t r) { return cost_of(vc, r).bytes; });
      const WireCost& cost = cost_of(vc, requester[vc]);
      bytes[vc] = cost.bytes;
      Time when = later(now, c.pace);
      when = later(when, credit_time(vc, c, cost, now));
      if (when == now) {
        eligible |= 1u << vc;
      } else if (when == Time::max()) {
        starved_ |= 1u << vc;
      } else {
        choice.retry = sooner(choice.retry, when);
      }
    }
    if (eligible == 0) continue;
    std::uint8_t vc = static_cast<std::uint8_t>(__builtin_ctz(eligible));
    if ((eligible & (eligible - 1)) != 0) {
      for (std::uint32_t e = eligible; e != 0; e &= e - 1) quantum_ = std::max(quantum_, bytes[__builtin_ctz(e)]);
      for (vc = turn_; (eligible >> vc & 1u) == 0 || state(vc).deficit < bytes[vc];) {
        const std::uint32_t after = eligible >> (vc + 1) << (vc + 1);
        vc = static_cast<std::uint8_t>(__builtin_ctz(after != 0 ? after : eligible));
        state(vc).deficit += quantum_ * kind_->plan.weight[vc];
      }
      had_deficit_ |= eligible;
      state(vc).deficit -= bytes[vc];
      turn_ = vc;
    }
    choice.found = true;
    choice.vc = vc;
    choice.requester = requester[vc];
    choice.wire_bytes = bytes[vc];
    return choice;
  }
  return choice;
}

}  // namespace railyard::transport
