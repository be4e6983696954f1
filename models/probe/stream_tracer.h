// The interface through which kinds of workload attach the streams of their ranks to waveforms and timelines, with the
// names of the tasks.
#pragma once

#include <functional>
#include <string>

#include "gpu/stream.h"

namespace railyard::probe {

class StreamTracer {
 public:
  /// A short name for a running task, or for the work it belongs to. Called at each change, but not while the stream
  /// waits or is idle.
  using TaskLabel = std::function<std::string(const gpu::Task&)>;

  /// @param name  hierarchical: name of the device, ".stream.", name of the stream
  virtual void attach(gpu::Stream& stream, const std::string& name, TaskLabel job = {}, TaskLabel work = {}) = 0;

 protected:
  ~StreamTracer() = default;
};

}  // namespace railyard::probe
