// How a port shares its line among streams of bytes, each of which can use so much at most: what the port rule
// (egress_port.h) does to trains, in the limit of small packets. Priorities first; channels of one priority by weight, each
// within what its window lets through; then the streams of a channel. What one cannot use goes to the others. Plain
// arithmetic, no kernel.
//
// A port takes turns by requester, but turns only decide among requesters that have trains waiting. Sources divide their lines
// evenly among streams, so a stream whose even share is smaller at another port has nothing waiting here, however many others
// come in by its input. So a port first grants each such stream its even share (Claim::granted) and divides the rest by
// requester, and by stream within one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "transport/link/traffic_class.h"

namespace railyard::transport {

/// One stream at a port. Rates in wire bytes per second of this port.
struct Claim {
  std::uint8_t channel = 0;
  std::uint32_t requester = 0;
  double demand = 0;                                        ///< what the rest of its way lets through
  double offer = 0;                                         ///< what it would get here if it asked for everything
  double window = std::numeric_limits<double>::infinity();  ///< what its channel's credits let through of such packets
  double granted = 0;                                       ///< before turns are taken
};

class PortShares {
 public:
  enum class Rule : std::uint8_t { evenly, by_turns };  ///< streams of a channel alike, or as above
  /// Fills in the offers. Taking the smaller of demand and offer, the claims never exceed the line.
  /// A channel's window is the smallest of its claims.
  /// @param claims  in order of (channel, requester)
  void share(std::vector<Claim>& claims, const ChannelPlan& plan, double line, Rule rule);

 private:
  /// Parts of a whole that is divided by weight.
  struct Part {
    std::size_t begin = 0, end = 0;  ///< of the claims
    double demand = 0, weight = 1;
    std::uint8_t priority = 0;
    double window = std::numeric_limits<double>::infinity();
    double room = 0;  ///< what it would get if it asked for everything
  };
  void divide(std::vector<Part>& parts, double capacity);
  void divide_evenly(std::vector<Claim>& claims, const Part& channel);
  void divide_by_turns(std::vector<Claim>& claims, const Part& channel);

  // Kept to spare allocations.
  std::vector<Part> channels_, rank_, requesters_, streams_;
  std::vector<std::size_t> order_;
};

}  // namespace railyard::transport
