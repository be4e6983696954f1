// The interface through which kinds of workload attach the streams of their ranks to waveforms and timelines, with the names of the
// tasks.
#pragma once

#include <functional>
#include <string>

#include "gpu/stream.h"

namespace railyard::probe {

class StreamTracer {
 public:
  /// Names a running task, or what it is part of; short: it is read in a box. Called at each change, and not while the stream
  /// waits or is idle.
  using TaskLabel = std::function<std::string(const gpu::Task&)>;

  /// @param name  hierarchical: the device's name, then ".stream." and the stream's
  virtual void attach(gpu::Stream& stream, const std::string& name, TaskLabel job = {}, TaskLabel work = {}) = 0;

 protected:
  ~StreamTracer() = default;
};

}  // namespace railyard::probe
