// Max-min rates of fluid streams: each port offers each of its streams what it would get there if it asked for all
// (shares.h), given what the rest of the way lets the others use; a stream takes its smallest offer. Ports whose streams'
// other offers have changed are asked again until nothing changes, so that a stream that starts or ends moves only what it
// touches. Acks and read requests of the other direction come off a line's capacity.
//
// This is done twice: with ports that share evenly among streams, which says where each stream's bottleneck is, and then with
// ports that take turns by requester among the streams that have their bottleneck there.
#pragma once

#include <array>
#include <limits>
#include <vector>

#include "transport/fluid/shares.h"
#include "transport/fluid/way.h"

namespace railyard::transport {

inline double line_rate(const LinkDirection& link) { return static_cast<double>(link.rate.bytes_per_second()); }
struct FluidFlow;

/// One direction of a link as streams see it, or a meter.
struct FluidPort {
  struct Member {
    FluidFlow* flow = nullptr;
    std::uint32_t crossing = 0;  ///< of its way
  };
  Device::Port* port = nullptr;  ///< null: a meter
  Meter* meter = nullptr;
  FluidPort* reverse = nullptr;  ///< of a meter: nobody's
  double limit = 0;              ///< of the engine behind it, a NIC's read tags, in wire bytes per second; 0: none
  std::vector<Member> members;   ///< by channel, requester and number of the flow
  std::array<bool, 2> asked{};   ///< waits for its turn in solve(), by rule

  const LinkDirection& link() const { return port->egress.link(); }
  double line() const {
    return port != nullptr ? line_rate(link()) : static_cast<double>(meter->rate().bytes_per_second());
  }
  PortCounters& counters() const { return port != nullptr ? port->counters : meter->counters; }
};

/// A stream's place in the sharing. Rates in payload bytes per second.
struct FluidFlow {
  struct Share {
    double rate = 0;
    std::uint32_t narrowest = 0;  ///< the crossing with the smallest offer
    std::vector<double> offers;   ///< by crossing
  };
  FluidWay* way = nullptr;
  std::uint32_t number = 0;
  double demand = 0;                              ///< what it could use alone
  std::array<Share, 2> shares;                    ///< by rule
  double rate() const { return shares[1].rate; }  ///< what it gets
  std::uint32_t narrowest() const { return shares[1].narrowest; }
  bool joined = false;   ///< it is a member of its ports
  bool changed = false;  ///< its rate, in the latest solve()
};

class FluidRates {
 public:
  explicit FluidRates(const ChannelPlan& plan) : plan_(plan) {}

  /// @param alone  it meets nobody, on its links or the other directions of them: it gets its demand
  void join(FluidFlow& flow, bool alone);
  void leave(FluidFlow& flow);
  /// Its demand has changed.
  void take_demand(FluidFlow& flow, bool alone);
  bool settled() const { return asked_[0].empty() && asked_[1].empty(); }
  /// Flows whose rates have changed. Valid until the next call.
  const std::vector<FluidFlow*>& solve();

 private:
  using Rule = PortShares::Rule;
  static constexpr Rule kRules[] = {Rule::evenly, Rule::by_turns};  ///< in this order: the second needs the first
  static FluidFlow::Share& share_of(FluidFlow& flow, Rule rule) { return flow.shares[static_cast<std::size_t>(rule)]; }

  void ask(FluidPort& port, Rule rule);
  void ask_if_shared(FluidPort& port, Rule rule) {
    if (!port.members.empty()) ask(port, rule);
  }
  void solve(Rule rule);
  void offer(FluidPort& port, Rule rule);
  /// The flow's rate follows its offers, and its other ports the rate.
  void accept(FluidFlow& flow, const FluidPort* from, Rule rule);

  const ChannelPlan& plan_;
  PortShares shares_;
  std::vector<Claim> claims_;
  std::array<std::vector<FluidPort*>, 2> asked_;  ///< in order, by rule
  std::vector<FluidFlow*> changed_;
};

}  // namespace railyard::transport
