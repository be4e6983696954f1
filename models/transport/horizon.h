// The earliest instant at which somebody may send over links that others use, too. A collective that has been recorded is
// replayed (collective/reuse.h) only if nobody else sends over its links until it is over and all credits have returned.
// A sender without a horizon may send at any time.
#pragma once

#include <cstdint>

#include "base/units.h"

namespace railyard::transport {

class Horizon {
 public:
  /// The earliest instant at which it may begin to send; not after now while it sends, or while bytes of it are under way. A
  /// promise: it never sends before an instant that it has named.
  virtual Time from() = 0;
  /// How often it has begun to send.
  virtual std::uint64_t sends() const = 0;

 protected:
  ~Horizon() = default;
};

}  // namespace railyard::transport
