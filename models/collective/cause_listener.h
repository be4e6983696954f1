// Listens to causes inside collectives: which event let a member continue, from the entries of its peers to its own end. The
// cause of what happens now is the event being processed: a message lands, a member enters, or a deferred action is taken up.
#pragma once

#include <cstdint>
#include <vector>

#include "transport/device/message.h"
#include "transport/study/cost.h"

namespace railyard::collective {

class Collective;

/// What a member's end goes back to: the entry of some member, and what took how long since.
struct Trail {
  std::uint32_t from_member = 0;
  std::vector<transport::Cost> costs;  ///< none twice of a kind, class and port
  std::vector<Time>
      floors;  ///< in no less time would it be over without one cost or another, as the listener numbers them
};

class CauseListener {
 public:
  virtual void on_entered(const Collective& collective, std::uint32_t member) = 0;
  /// What happens now puts something off; the same tag and data come up again in the order in which they were put off.
  /// @param copying  of the time until then, what a CTA copies bytes for, at its rate
  virtual void on_put_off(const Collective& collective, std::uint32_t tag, std::uint64_t data, Time copying) = 0;
  virtual void on_taken_up(const Collective& collective, std::uint32_t tag, std::uint64_t data) = 0;
  /// The last byte of a message has left its source.
  virtual void on_left(const transport::Message& message) = 0;
  /// A member is done because of what happens now; its client is told at the end of this instant.
  virtual Trail trail_of(const Collective& collective) = 0;
  /// The member whose client is told next was done so, now or in an earlier course like this one.
  virtual void on_ended(const Trail& trail) = 0;

 protected:
  ~CauseListener() = default;
};

}  // namespace railyard::collective
