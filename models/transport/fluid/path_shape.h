// What a message of some size costs on a path, kept for all paths that are alike: equal links and packet formats, in lanes that
// share links in the same way. Between the GPUs of a board, few shapes of paths exist, and the messages of a collective have
// few sizes. So a size is measured once, not once for each pair of GPUs.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <vector>

#include "base/units.h"
#include "transport/link/link.h"

namespace railyard::transport {

/// A message of some size.
struct SizedMessage {
  /// What it adds to the counters of one port when its last byte has left.
  struct Charge {
    std::uint32_t port = 0;  ///< its number on the path
    Bytes payload_bytes = 0, wire_bytes = 0;
    Time busy;
  };
  Bytes bytes = std::numeric_limits<Bytes>::max();
  Bytes slowest_bytes = 0;  ///< in the unit that limits the slowest stage
  Time drain;               ///< time of these bytes
  Time uncontended;         ///< from memory to memory
  std::vector<Charge> charges;
};

class PathShape {
 public:
  /// What is kept of this size, or of another one.
  const SizedMessage& kept(Bytes bytes) const { return slots_[bytes % slots_.size()]; }
  /// Where this size is to be kept. Other references may become invalid.
  SizedMessage& place(Bytes bytes);

 private:
  std::vector<SizedMessage> slots_ = std::vector<SizedMessage>(2);  // slices of a vector differ by a byte
  std::size_t placed_ = 0;
};

/// All shapes, by all numbers from which costs of messages are computed.
class PathShapes {
 public:
  using Numbers = std::vector<std::uint64_t>;
  PathShape& of(const Numbers& numbers) { return shapes_[numbers]; }
  /// The number of links that are equal to this one.
  std::uint64_t number_of(const LinkDirection& link);

 private:
  std::map<Numbers, PathShape> shapes_;
  std::vector<LinkDirection> links_;
};

}  // namespace railyard::transport
