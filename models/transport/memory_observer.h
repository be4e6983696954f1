// Who is told of messages as memory sees them: when one is handed to its sender, and when it is over. Both ends' memories are
// told from one place, whatever the message crosses in between and in which fidelity.
#pragma once

#include <cstdint>

#include "base/units.h"

namespace railyard::transport {

struct Message;

class MemoryObserver {
 public:
  /// Nothing of it has moved yet; `uncontended` is known.
  virtual void on_begun(const Message& message) = 0;
  /// The last byte has landed, or will never; its client is told next.
  virtual void on_over(const Message& message) = 0;
  /// Messages whose course is known and was not simulated again have read and written so much of a memory.
  virtual void on_replayed(std::uint32_t window, Bytes bytes) = 0;

 protected:
  ~MemoryObserver() = default;
};

}  // namespace railyard::transport
