// Shares of a port's line among streams of bytes, each with a limited demand: the result of the port rule
// (egress_port.h) for trains in the limit of small packets. Priorities come first; then virtual channels of one
// priority by weight, each limited by its window; then the streams of a virtual channel. A share that a stream cannot
// use goes to the other streams. Plain arithmetic, no SystemC.
//
// A port takes turns by requester, but only among requesters with waiting trains. Sources divide their lines evenly
// among streams, so a stream with a smaller even share at another port has no waiting trains here, even if many other
// streams use the same input. So a port first grants each such stream its even share (Claim::granted). It divides the
// rest by requester, and among a requester's streams.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "transport/link/traffic_class.h"

namespace railyard::transport {

/// One stream at a port. Rates in wire bytes per second of this port.
struct Claim {
  std::uint8_t vc = 0;
  std::uint32_t requester = 0;
  double demand = 0;                                        ///< limit by the rest of its path
  double offer = 0;                                         ///< rate that it would get here with unlimited demand
  double window = std::numeric_limits<double>::infinity();  ///< limit by its virtual channel's credits for such packets
  double granted = 0;                                       ///< rate before turns are taken
  double weight = 1;                                        ///< of the stream; a requester has its heaviest one's
};

class PortShares {
 public:
  /// All streams of a virtual channel equally, or as described above.
  enum class Rule : std::uint8_t { evenly, by_turns };
  /// Fills in the offers. If each claim takes the smaller of demand and offer, the sum never exceeds the line.
  /// The smallest window of a virtual channel's claims is the window of the virtual channel.
  /// @param claims  ordered by (virtual channel, requester)
  void share(std::vector<Claim>& claims, const VcPlan& plan, double line, Rule rule);

 private:
  /// A part of a capacity that is divided by weight.
  struct Part {
    std::size_t begin = 0, end = 0;  ///< range of the claims
    double demand = 0, weight = 1;
    std::uint8_t priority = 0;
    double window = std::numeric_limits<double>::infinity();
    double room = 0;  ///< rate that it would get with unlimited demand
  };
  void divide(std::vector<Part>& parts, double capacity);
  void divide_evenly(std::vector<Claim>& claims, const Part& part);
  void divide_by_turns(std::vector<Claim>& claims, const Part& part);

  // Kept to avoid allocations.
  std::vector<Part> vcs_, rank_, requesters_, streams_;
  std::vector<std::size_t> order_;
};

}  // namespace railyard::transport
