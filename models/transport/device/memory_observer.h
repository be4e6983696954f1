// Who is told of messages as memory sees them: when one is handed to its sender, and when it is over. Both ends' memories are
// told from one place, whatever the message crosses in between and in which fidelity.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/units.h"

namespace railyard::transport {

struct Message;

/// What messages that belong together did to memories, so that it can be done again: how fast each memory is read and written,
/// and how many bytes of it in all.
struct MemoryCourse {
  struct Step {
    Time after;                          ///< the first message began
    std::int64_t read = 0, written = 0;  ///< bytes per second more (or fewer) from then on
  };
  struct Memory {
    std::uint32_t window = 0;
    Bytes bytes = 0;
    std::vector<Step> steps;  ///< in order of time
  };
  std::vector<Memory> memories;
};

class MemoryObserver {
 public:
  /// Nothing of it has moved yet; `uncontended` is known.
  virtual void on_begun(const Message& message) = 0;
  /// The last byte has landed, or will never; its client is told next.
  virtual void on_over(const Message& message) = 0;
  /// Adds to a course, its steps in any order, what a message does that begins `after` the course's first one. @pre on_begun()
  virtual void keep(const Message& message, Time after, MemoryCourse& course) const = 0;
  /// Messages of a course, now with its steps in order, begin again, and are not simulated.
  virtual void on_replayed(std::shared_ptr<const MemoryCourse> course) = 0;

 protected:
  ~MemoryObserver() = default;
};

}  // namespace railyard::transport
