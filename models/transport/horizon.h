// The earliest instant at which somebody may send over links that others use, too. A collective that has been recorded is
// replayed (collective/reuse.h) only if nobody else sends over its links until it is over and all credits have returned.
// A sender without a horizon may send at any time.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>

#include "base/units.h"

namespace railyard::transport {

/// Somebody sends before an instant that it has named: what has been replayed since then may be wrong.
struct BrokenHorizon : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Horizon {
 public:
  /// The earliest instant at which it may begin to send; not after now while it sends, or while bytes of it are under way. A
  /// promise: it never sends before an instant that it has named.
  Time from() {
    const Time next = this->next();
    promised_ = later(promised_, next);
    return next;
  }
  /// How often it has begun to send.
  std::uint64_t sends() const { return sends_; }

 protected:
  /// @param sender  its name, for BrokenHorizon
  explicit Horizon(std::string sender) : sender_(std::move(sender)) {}
  ~Horizon() = default;

  /// See from().
  virtual Time next() = 0;
  /// It begins to send now. @throws BrokenHorizon  it has named a later instant
  void begins(Time now);

 private:
  std::string sender_;
  Time promised_;  ///< the latest instant that from() has named
  std::uint64_t sends_ = 0;
};

}  // namespace railyard::transport
