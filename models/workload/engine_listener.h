// Listens to the load of serving engines: requests that run and wait, and blocks of KV cache. A listener does not
// influence the run.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/units.h"

namespace railyard::workload {

struct EngineLoad {
  std::size_t running = 0, waiting = 0;  ///< requests
  std::uint32_t blocks = 0;              ///< of KV cache that requests hold

  bool operator==(const EngineLoad& o) const {
    return running == o.running && waiting == o.waiting && blocks == o.blocks;
  }
};

class EngineListener {
 public:
  /// @param engine  its number, in the order in which the workload names its engines
  virtual void on_load(std::size_t engine, const EngineLoad& load, Time now) = 0;

 protected:
  ~EngineListener() = default;
};

}  // namespace railyard::workload
