// Reports causes inside collectives: which event let a member continue, from the entries of its peers to its own end.
// The cause is always the event being processed: a message lands, a member enters, or a deferred action is taken up.
#pragma once

#include <cstdint>
#include <vector>

#include "transport/device/message.h"
#include "transport/study/cost.h"

namespace railyard::collective {

class Collective;

/// Why a member ended when it did: the chain goes back to the entry of `from_member`, and `costs` sum to the time since
/// then.
struct Trail {
  std::uint32_t from_member = 0;
  std::vector<transport::Cost> costs;  ///< at most one per kind, class and port
  std::vector<Time> floors;            ///< least time of the collective with one cost removed; numbered by the listener
};

class CauseListener {
 public:
  virtual void on_entered(const Collective& collective, std::uint32_t member) = 0;
  /// An action is deferred. on_taken_up() follows with the same (tag, data), first deferred first.
  /// @param copying  part of the wait in which a CTA copies bytes at its rate
  virtual void on_put_off(const Collective& collective, std::uint32_t tag, std::uint64_t data, Time copying) = 0;
  virtual void on_taken_up(const Collective& collective, std::uint32_t tag, std::uint64_t data) = 0;
  /// The last byte of a message has left its source.
  virtual void on_left(const transport::Message& message) = 0;
  /// The event being processed completes a member. Its client is notified at the end of this instant.
  virtual Trail trail_of(const Collective& collective) = 0;
  /// The trail of the member whose client is notified next; of an earlier collective if this one was replayed.
  virtual void on_ended(const Trail& trail) = 0;

 protected:
  ~CauseListener() = default;
};

}  // namespace railyard::collective
