// The port rule: when a transaction may start on a link, which one goes, what it costs and when it arrives. One rule for
// every protocol; plain C++, no kernel, so that every edge of it can be tested one femtosecond to either side.
//
// b = wire bytes, R = line rate, D = b/R, L = latency, W = buffer per virtual channel at the far end, RTT = latency plus
// credit latency, Rv = min(R, W/RTT). Where the far end counts packets, too (PCIe's header credits, H a channel), they are a
// second window beside W: a train of n packets takes at least n RTT/H, and starts while fewer than H are outstanding.
//  1. Eligible at T: its head is here; it is the front of its (requester, channel) queue; outstanding < W + the channel's
//     largest train so far, which is outstanding <= W with W counted in whole trains; T >= pace of its channel; T >= free of
//     its priority; when a lower priority is being charged, T is one of its packet boundaries.
//  2. Chosen at T, never ahead: highest priority, then deficit round robin over channels by weight in wire bytes, then
//     round robin over requesters, fair in wire bytes, too. A channel without credit never holds the port.
//  3. Start s = T charges line time only, however slowly the tail trickles in: free[q] = max(free[q], s) + D for q <= p.
//  4. It arrives over [s + L, max(s + b/Rv, tail here) + L].
//  5. A started train is never re-timed; its credit comes back when its tail leaves the next device, plus credit latency.
//
// Charging instead of holding lets a fast flow use what a slow upstream leaves. Counting W in whole trains is what makes a
// small window give exactly W/RTT at any train size: credit returns train by train here, packet by packet in hardware.
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
  Time leaves;                    ///< the tail leaves this device
  Time line_free;                 ///< when the line is free again for its priority
  Time owed;                      ///< of the line's time, for acks and flow control that went in front
  Bytes wire_bytes = 0;           ///< on this link
  Bytes credit_bytes = 0;         ///< of the far buffer
};

class EgressPort {
 public:
  EgressPort() = default;
  /// @param kind  outlives the port
  explicit EgressPort(PortKind& kind) : kind_(&kind) {}

  // -- who waits
  /// A requester's front wants the port. One that was idle has forgotten whose turn it was: what a port does depends on the
  /// traffic since it was quiet last, not on all its past. @return whether it was idle with all credit of the channel home
  bool add(std::uint8_t channel, std::uint32_t requester, Time now);
  bool waiting() const { return waiting_channels_ != 0; }
  std::vector<std::uint32_t> requesters(std::uint8_t channel) const {
    return used(channel) != nullptr ? used(channel)->waiting.all() : std::vector<std::uint32_t>();
  }
  bool waiting(std::uint8_t channel) const { return (waiting_channels_ >> channel & 1u) != 0; }

  // -- the choice
  struct Choice {
    bool found = false;
    std::uint8_t channel = 0;
    std::uint32_t requester = 0;
    Bytes wire_bytes = 0;
    Time retry =
        Time::max();  ///< not found: the earliest instant at which asking again can help; max: a credit must come first
  };
  /// @param cost_of  what the front transaction of (channel, requester) costs here
  template <class CostOf>
  Choice choose(Time now, CostOf&& cost_of);

  /// The chosen requester's turn is taken. @pre chosen at `now`
  void remove(const Choice& choice, Time now);
  /// Charges the port. @pre the choice was made at `now`; @param tail_here when its tail is (or was) here
  Crossing start(std::uint8_t channel, Time now, const WireCost& cost, Time tail_here);

  // -- credits and debts
  /// A credit whose tail left the next device at `left`; it is usable from left + credit latency.
  Time credit(std::uint8_t channel, Bytes bytes, Bytes packets, Time left);
  /// True once, when a channel was found short of credit and nothing was under way to it.
  bool starved(std::uint8_t channel) {
    const bool was = starved_ >> channel & 1u;
    starved_ &= static_cast<std::uint16_t>(~(1u << channel));
    return was;
  }
  /// Acks and flow control that this direction owes for what the other one received.
  void owe(Bytes bytes) { debt_ += bytes; }

  /// When nothing waits, the line is free, nothing is owed and every credit is home, so that what comes next cannot tell what
  /// came before: the first such instant if nothing else comes, or one not after now; max: something still waits or holds credit.
  Time quiet_from(Time now);

  /// The link is lost: nothing starts any more, and whoever waited must be taken back.
  void fail();
  bool failed() const { return failed_; }
  /// Trains that start from now on cross a link of this kind; what is being charged keeps its time.
  void become(PortKind& kind);
  PortKind& kind() const { return *kind_; }
  const LinkDirection& link() const { return kind_->link; }
  Time free(std::uint8_t priority = 0) const { return free_[priority]; }
  Bytes outstanding(std::uint8_t channel) const;
  /// What outstanding() never exceeds: the buffer, and two of the channel's largest trains, since W is counted in whole trains
  /// and a train may start while less than that is outstanding.
  Bytes most_outstanding(std::uint8_t channel) const;
  /// Outstanding after every credit under way has come home.
  Bytes unreturned(std::uint8_t channel) const;
  /// The same of packets, where the far end counts them.
  Bytes packets_outstanding(std::uint8_t channel) const;
  Bytes most_packets_outstanding(std::uint8_t channel) const;
  Bytes packets_unreturned(std::uint8_t channel) const;

 private:
  struct Headers {
    CreditWindow credit;
    Bytes largest = 0;        ///< packets of a train since all credit was home
    std::uint64_t carry = 0;  ///< of the stream at H/RTT
  };
  struct Channel {
    RequesterSet waiting;
    CreditWindow credit;
    Bytes largest = 0;  ///< train since all credit was home
    Bytes deficit = 0;
    Time pace;
    Time served_at;
    std::uint64_t window_carry = 0;    ///< of the stream at b/Rv
    std::unique_ptr<Headers> headers;  ///< null: the far end does not count packets
  };
  /// The first channel used is kept in the port: most ports see one.
  Channel& channel(std::uint8_t vc) {
    if (vc == lead_) return lead_channel_;
    return (used_ >> vc & 1u) != 0 ? *(*others_)[vc] : first_use(vc);
  }
  /// Null where it was never used.
  const Channel* used(std::uint8_t vc) const {
    if (vc == lead_) return &lead_channel_;
    return (used_ >> vc & 1u) != 0 ? (*others_)[vc].get() : nullptr;
  }
  Channel& first_use(std::uint8_t vc);
  /// The port was idle.
  void forget_turns();

  Channel& made(Channel& channel, std::uint8_t vc);
  /// When every credit of a channel is home; max: some is not under way yet.
  static Time settled_from(Channel& channel, Time now);
  /// When this channel's front has credit; max if that needs a credit not yet under way.
  Time credit_time(std::uint8_t vc, Channel& channel, const WireCost& cost, Time now);
  /// The next packet boundary of what is being charged below `priority`.
  Time next_packet_boundary(std::size_t priority, Time now) const;

  static constexpr std::uint8_t kNoChannel = kVirtualChannels;

  // What every transaction touches comes first.
  PortKind* kind_ = nullptr;
  std::uint16_t used_ = 0, waiting_channels_ = 0, starved_ = 0, had_deficit_ = 0;  ///< a bit per channel
  std::uint8_t turn_ = 0;                                                          ///< deficit round robin pointer
  std::uint8_t lead_ = kNoChannel;                                                 ///< the first channel used
  bool failed_ = false;
  std::array<Time, kPriorities> free_{};
  std::uint64_t line_carry_ = 0;
  Bytes debt_ = 0;
  Bytes quantum_ = 0;  ///< the largest train since the port was idle, so that one round always lets somebody go
  Channel lead_channel_;
  std::unique_ptr<std::array<std::unique_ptr<Channel>, kVirtualChannels>> others_;  ///< null: there is at most one
  struct Grid {
    Time from, packet;
  };
  std::array<Grid, kPriorities> grid_{};  ///< packet boundaries of the latest charge, by its priority
};

template <class CostOf>
EgressPort::Choice EgressPort::choose(Time now, CostOf&& cost_of) {
  Choice choice;
  // A channel that has nothing left when others are asked forgets its deficit.
  for (std::uint32_t gone = had_deficit_ & ~waiting_channels_; gone != 0; gone &= gone - 1)
    channel(static_cast<std::uint8_t>(__builtin_ctz(gone))).deficit = 0;
  had_deficit_ &= waiting_channels_;
  for (int p = static_cast<int>(kPriorities) - 1; p >= 0; --p) {
    std::uint32_t left = waiting_channels_ & kind_->channels_at[p];
    if (left == 0) continue;
    if (now < free_[p]) {  // every lower priority is charged at least as long
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
    std::array<Bytes, kVirtualChannels> bytes;  // of the channels in `left`
    std::array<std::uint32_t, kVirtualChannels> requester;
    for (; left != 0; left &= left - 1) {
      const auto vc = static_cast<std::uint8_t>(__builtin_ctz(left));
      Channel& c = channel(vc);
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
      for (vc = turn_; (eligible >> vc & 1u) == 0 || channel(vc).deficit < bytes[vc];) {
        const std::uint32_t after = eligible >> (vc + 1) << (vc + 1);
        vc = static_cast<std::uint8_t>(__builtin_ctz(after != 0 ? after : eligible));
        channel(vc).deficit += quantum_ * kind_->plan.weight[vc];
      }
      had_deficit_ |= eligible;
      channel(vc).deficit -= bytes[vc];
      turn_ = vc;
    }
    choice.found = true;
    choice.channel = vc;
    choice.requester = requester[vc];
    choice.wire_bytes = bytes[vc];
    return choice;
  }
  return choice;
}

}  // namespace railyard::transport
