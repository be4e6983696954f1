// When somebody may send over links that others use, too. A course of traffic that is known, such as a collective that has been
// recorded (collective/reuse.h), takes the place of a simulation only if nobody else sends over its links until it is
// over and all credits have returned. Who may send says from which instant on; of others, nothing is known, and they
// may send at any time.
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
