// Observes messages from the view of memory: when a message is passed to its sender, and when it is over. Both ends'
// memories are reported from one place, for every path and fidelity.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/units.h"

namespace railyard::transport {

struct Message;

/// The memory traffic of related messages, recorded for replay: the rates at which each memory is read and written, and
/// the total bytes of each memory.
struct MemoryRecording {
  struct Step {
    Time after;                          ///< time since the begin of the first message
    std::int64_t read = 0, written = 0;  ///< change of the rate in bytes per second from then on
  };
  struct Memory {
    std::uint32_t window = 0;  ///< where it was recorded
    Bytes bytes = 0;
    std::vector<Step> steps;  ///< in order of time
  };
  std::vector<Memory> memories;
};

class MemoryObserver {
 public:
  /// No byte of the message has moved yet; `uncontended` is known.
  virtual void on_begun(const Message& message) = 0;
  /// The last byte has arrived, or will never arrive; the client is notified next.
  virtual void on_over(const Message& message) = 0;
  /// Adds a message's traffic to a recording, with unsorted steps. It begins `after` the recording's first message. @pre
  /// on_begun()
  virtual void keep(const Message& message, Time after, MemoryRecording& recording) const = 0;
  /// Messages of a recording, now with sorted steps, begin again; they are not simulated.
  /// @param windows  the memories that now take the course, in the order of course->memories
  virtual void on_replayed(std::shared_ptr<const MemoryRecording> recording,
                           const std::vector<std::uint32_t>& windows) = 0;
  /// The same so often, one after the other, while nobody else uses these memories or asks for their traffic.
  virtual void on_composed(const MemoryRecording& recording, const std::vector<std::uint32_t>& windows,
                           std::uint64_t times) = 0;

 protected:
  ~MemoryObserver() = default;
};

}  // namespace railyard::transport
