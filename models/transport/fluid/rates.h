// Max-min rates of fluid streams. Each port offers each of its streams the rate that the stream would get there with
// unlimited demand (shares.h), given the limits of the port's other streams elsewhere on their paths. A stream takes
// its smallest offer. Ports are solved again while other offers of their streams change, so a stream that starts or
// ends affects only streams that depend on it. Acks and read requests of the opposite direction reduce a line's
// capacity.
//
// Ports that streams have crossed together are an island. Islands do not depend on each other: each is solved, and
// remembered, by itself, so that the servers of a fleet find their rates again whatever the others do.
//
// There are two passes. First, ports share evenly among streams; this finds the bottleneck of each stream. Then ports
// take turns by requester among the streams that have their bottleneck there.
#pragma once

#include <array>
#include <deque>
#include <limits>
#include <optional>
#include <vector>

#include "transport/fluid/fluid_path.h"
#include "transport/fluid/rate_memory.h"
#include "transport/fluid/shares.h"

namespace railyard::transport {

inline double line_rate(const LinkDirection& link) { return static_cast<double>(link.rate.bytes_per_second()); }
struct FluidFlow;
struct FluidPort;

struct FluidIsland {
  FluidIsland* part_of = nullptr;                ///< the island that it has become a part of
  std::array<std::vector<FluidPort*>, 2> asked;  ///< in order, by rule
  bool waits = false;                            ///< in FluidRates::waiting_
  std::optional<RateMemory> memory;
  std::size_t joined = 0;  ///< flows
};

/// One direction of a link in the view of streams, or a meter, or a line of no device.
struct FluidPort {
  struct Member {
    FluidFlow* flow = nullptr;
    std::uint32_t crossing = 0;  ///< index on the flow's path
  };
  Device::Port* port = nullptr;  ///< null: a meter, or no device
  Meter* meter = nullptr;
  double own_line = 0;           ///< of no device
  FluidPort* reverse = nullptr;  ///< the opposite direction; of a meter or no device, one without members
  double limit = 0;              ///< of the engine at this port, a NIC's read tags, in wire bytes per second; 0: none
  std::vector<Member> members;   ///< ordered by virtual channel, requester and number of the flow
  /// The port on which rates are solved for this one: every stream here crosses that one, too, and takes as large a part
  /// of its line (fluid_path.h). Null: not crossed yet.
  FluidPort* stand_in = nullptr;
  std::array<bool, 2> asked{};    ///< waits in the queue of solve(), by rule
  FluidIsland* island = nullptr;  ///< null: no stream has joined here yet

  const LinkDirection& link() const { return port->egress.link(); }
  double line() const {
    if (port != nullptr) return line_rate(link());
    return meter != nullptr ? static_cast<double>(meter->rate().bytes_per_second()) : own_line;
  }
  PortCounters& counters() const { return port != nullptr ? port->counters : meter->counters; }
};

/// A stream's state in the sharing. Rates in payload bytes per second.
struct FluidFlow {
  struct Share {
    double rate = 0;
    std::uint32_t narrowest = 0;   ///< the crossing with the smallest offer
    double least = 0, second = 0;  ///< that offer, and the smallest of the others
    std::vector<double> offers{};  ///< by crossing

    void find_narrowest();
  };
  const std::vector<FluidCrossing>* crossings = nullptr;  ///< its path
  std::uint32_t number = 0;
  double demand = 0;                              ///< its rate without contention
  std::array<Share, 2> shares;                    ///< by rule
  double rate() const { return shares[1].rate; }  ///< its actual rate
  std::uint32_t narrowest() const { return shares[1].narrowest; }
  bool joined = false;            ///< true if it is a member of its ports
  bool changed = false;           ///< true if the latest solve() changed its rate
  bool touched = false;           ///< true if the solve() under way has changed its shares
  FluidIsland* island = nullptr;  ///< of its ports; null: it has not joined yet
};

class FluidRates {
 public:
  /// @param remembers  rates that have been solved once are found again. Ports and crossings stay as they are, or forget() follows,
  ///                   and numbers of flows are unique
  explicit FluidRates(const VcPlan& plan, bool remembers = false) : plan_(plan), remembers_(remembers) {}

  /// @param alone  no other stream uses its links, in either direction: it gets its demand
  void join(FluidFlow& flow, bool alone);
  void leave(FluidFlow& flow);
  /// The flow's demand has changed.
  void take_demand(FluidFlow& flow, bool alone);
  bool settled() const { return waiting_.empty(); }
  /// Lines, limits or paths have changed: anywhere, or on these crossings alone.
  void forget();
  void forget(const std::vector<FluidCrossing>& crossings);
  /// Solutions that were found again.
  std::uint64_t found() const;
  /// Flows whose rates have changed. Valid until the next call.
  const std::vector<FluidFlow*>& solve();

 private:
  using Rule = PortShares::Rule;
  static constexpr Rule kRules[] = {Rule::evenly, Rule::by_turns};  ///< in this order: the second rule needs the first
  static FluidFlow::Share& share_of(FluidFlow& flow, Rule rule) { return flow.shares[static_cast<std::size_t>(rule)]; }

  void ask(FluidPort& port, Rule rule);
  void ask_if_shared(FluidPort& port, Rule rule) {
    if (!port.members.empty()) ask(port, rule);
  }
  /// The whole island; the pointer is to it from then on.
  static FluidIsland& whole(FluidIsland*& island);
  /// Makes the ports of a path parts of one island.
  FluidIsland& connect(const std::vector<FluidCrossing>& crossings);
  void merge(FluidIsland& part, FluidIsland& whole);
  void solve(FluidIsland& island);
  void solve(FluidIsland& island, Rule rule);
  /// No port is queued.
  static void clear(FluidIsland& island, Rule rule);
  void offer(FluidPort& port, Rule rule);
  /// The flow gets another offer at a crossing. Queues the ports at which it has another limit then.
  void accept(FluidFlow& flow, std::uint32_t at, double offered, Rule rule);
  /// Sets the flow's rate by its offers, and queues what depends on it.
  void take_rate(FluidFlow& flow, Rule rule);

  const VcPlan& plan_;
  PortShares shares_;
  std::vector<Claim> claims_;
  bool remembers_;
  std::deque<FluidIsland> islands_;
  std::vector<FluidIsland*> waiting_;  ///< with queued ports
  std::vector<FluidFlow*> changed_, touched_;
  bool only_less_ = false;  ///< an offer of this round that is larger than the last one has no effect
};

}  // namespace railyard::transport
