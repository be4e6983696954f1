// A device with a copy engine, as host memory sees it: the interface that lets a GPU and a host memory move bytes between each other
// without knowing each other's devices.
#pragma once

#include "transport/device/message.h"
#include "transport/device/path.h"

namespace railyard::pcie {

class HostMemory;

class CopyEngine {
 public:
  /// Reads more of a message out of host memory, which is told of what was taken.
  virtual void fetch(transport::Message& message, HostMemory& from, Bytes bytes) = 0;
  /// Writes more of a message, one of its own, into host memory.
  virtual void stage(transport::Message& message, HostMemory& into, Bytes bytes) = 0;
  virtual transport::Path fetch_path(const HostMemory& from) const = 0;

 protected:
  ~CopyEngine() = default;
};

}  // namespace railyard::pcie
