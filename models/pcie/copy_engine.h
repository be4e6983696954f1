// The interface of a device with a copy engine, as host memory uses it. A GPU and a host memory exchange bytes through
// it without a dependency between their folders.
#pragma once

#include <deque>

#include "transport/device/message.h"
#include "transport/device/path.h"

namespace railyard::pcie {

class HostMemory;

class CopyEngine {
 public:
  /// Reads the next `bytes` of a message from host memory; HostMemory::taken() reports what was read.
  virtual void fetch(transport::Message& message, HostMemory& from, Bytes bytes) = 0;
  /// Writes the next `bytes` of a message of this device into host memory.
  virtual void stage(transport::Message& message, HostMemory& into, Bytes bytes) = 0;
  virtual transport::Path fetch_path(const HostMemory& from) const = 0;

  /// A chunk of a copy that bounces off host memory: into this device, or out of it.
  struct Chunk {
    HostMemory* memory;
    transport::Message* message;
    bool is_in;
  };
  /// Chunks pass the engine one after the other, in the order of these calls: HostMemory::begin() when it is the chunk's turn.
  void pass(const Chunk& chunk);
  /// The chunk that passes the engine is through.
  void passed();

 protected:
  ~CopyEngine() = default;

 private:
  std::deque<Chunk> chunks_;  ///< the first one passes
};

}  // namespace railyard::pcie
