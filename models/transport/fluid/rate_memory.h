// Rates of fluid streams that have been solved before. The same collective with messages of other sizes starts and ends its streams
// in the same order, at other instants, and rates do not depend on instants. So rates are kept by all that has happened to
// the streams since there was none: which one has joined, left or got another demand, in order, with a mark where rates
// were solved. The keys are compared in full. What is restored equals what would be computed to the last bit, because the sums
// are the same ones in the same order.
//
// This holds while ports, lines and limits stay as they are: forget() when they change.
#pragma once

#include <cstdint>
#include <limits>
#include <unordered_map>
#include <vector>

namespace railyard::transport {

struct FluidFlow;

class RateMemory {
 public:
  /// What a solution has changed.
  struct Solution {
    std::vector<FluidFlow*> flows;         ///< with other shares
    std::vector<std::uint32_t> narrowest;  ///< by flow and rule
    std::vector<double> values;            ///< by flow and rule: rate, least, second, and the offers
    std::vector<FluidFlow*> changed;       ///< with another rate, in the order of the solution

    void add(FluidFlow& flow);
    /// Gives the flows their shares. @pre they have as many crossings as when they were added
    void restore() const;
  };

  /// There are no streams, and nothing waits to be solved.
  void at_rest() { place_ = kRest; }
  void joined(const FluidFlow& flow, bool alone) { step(alone ? kJoinedAlone : kJoined, flow); }
  void left(const FluidFlow& flow) { step(kLeft, flow); }
  void took_demand(const FluidFlow& flow, bool alone) { step(alone ? kTookDemandAlone : kTookDemand, flow); }
  /// Rates are solved now. @return how, if that is known; else keep() may follow
  const Solution* solve();
  void keep(Solution solution);
  void forget();

  /// Solutions that solve() has returned.
  std::uint64_t found() const { return found_; }

 private:
  enum What : std::uint8_t { kJoined, kJoinedAlone, kLeft, kTookDemand, kTookDemandAlone, kSolved };
  static constexpr std::uint32_t kRest = 0, kLost = ~0u;
  static constexpr std::size_t kMostPlaces = 1u << 17, kMostValues = 1u << 20;  // about 12 MB in all

  struct Event {
    double demand = 0;
    std::uint32_t flow = 0;
    What what = kSolved;
    bool operator==(const Event& o) const { return flow == o.flow && demand == o.demand && what == o.what; }
  };
  /// After a history of events. Most places have one event after them.
  struct Place {
    Event first;                     ///< that came first here
    std::uint32_t next = 0;          ///< the place after it; 0: nothing has come yet
    std::uint32_t solution = kLost;  ///< kLost: none
  };
  struct Branch {
    std::uint32_t place = 0;
    Event event;
    bool operator==(const Branch& o) const { return place == o.place && event == o.event; }
  };
  struct BranchHash {
    std::size_t operator()(const Branch& branch) const;
  };

  void step(What what, const FluidFlow& flow);
  void go(const Event& event);
  std::uint32_t add_place();

  std::uint32_t place_ = kLost;  ///< in the history; kLost: unknown
  std::vector<Place> places_{1};
  std::unordered_map<Branch, std::uint32_t, BranchHash> branches_;  ///< places after events that did not come first
  std::vector<Solution> solutions_;
  std::size_t values_ = 0;
  std::uint64_t found_ = 0;
};

}  // namespace railyard::transport
