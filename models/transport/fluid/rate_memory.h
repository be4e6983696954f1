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
  static constexpr std::size_t kMostPlaces = 1u << 17, kMostValues = 1u << 20;  // about 16 MB in all

  /// A step from a place in a history to the next one.
  struct Step {
    std::uint32_t place = 0, flow = 0;
    double demand = 0;
    What what = kSolved;
    bool operator==(const Step& o) const {
      return place == o.place && flow == o.flow && demand == o.demand && what == o.what;
    }
  };
  struct StepHash {
    std::size_t operator()(const Step& step) const;
  };

  void step(What what, const FluidFlow& flow);
  void go(const Step& step);

  std::uint32_t place_ = kLost;  ///< in the history; kLost: unknown
  std::uint32_t places_ = kRest;
  std::size_t values_ = 0;
  std::unordered_map<Step, std::uint32_t, StepHash> next_;
  std::unordered_map<std::uint32_t, Solution> solutions_;  ///< by the place after kSolved
  std::uint64_t found_ = 0;
};

}  // namespace railyard::transport
