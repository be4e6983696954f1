// The serving engines of a timeline: counters of requests that run and wait, and of the blocks of KV cache that they
// hold.
#pragma once

#include <string>
#include <vector>

#include "probe/timeline_file.h"
#include "workload/engine_listener.h"

namespace railyard::probe {

class TimelineEngines final : public workload::EngineListener {
 public:
  /// `file` outlives it.
  explicit TimelineEngines(TimelineFile& file) : file_(file) {}

  void attach(const std::string& name) { processes_.push_back(file_.process("engine " + name)); }
  void on_load(std::size_t engine, const workload::EngineLoad& load, Time now) override {
    const std::uint32_t process = processes_[engine];
    file_.events.counter(process, "requests", "running", now, std::uint64_t{load.running});
    file_.events.counter(process, "requests", "waiting", now, std::uint64_t{load.waiting});
    file_.events.counter(process, "KV blocks", "held", now, std::uint64_t{load.blocks});
  }

 private:
  TimelineFile& file_;
  std::vector<std::uint32_t> processes_;  ///< by number of the engine
};

}  // namespace railyard::probe
