// Who follows jobs from one to the next: which were done when another began, and what came of it (probe/critical_path.h).
#pragma once

#include <cstdint>

#include "base/units.h"

namespace railyard::workload {

class Job;

class JobListener {
 public:
  /// Emitted, because of what happens now; its stream may take it up next.
  virtual void on_emitted(const Job& job) = 0;
  /// One of the jobs that it waits for is done.
  virtual void on_waited(const Job& job, const Job& done) = 0;
  virtual void on_begun(const Job& job) = 0;
  /// Whoever waits for it, its client first, is told next.
  virtual void on_done(const Job& job) = 0;
  /// What happens now is one of several things that must have happened before on_passed() with the same gate, a number of its
  /// owner's.
  virtual void on_reached(const void* owner, std::uint32_t gate) = 0;
  /// All of them have: they are the cause of what happens now.
  virtual void on_passed(const void* owner, std::uint32_t gate) = 0;
  /// Something comes from outside: no job is the cause of what happens now.
  virtual void on_arrived() = 0;
  // What a metric of the summary is a mean over: begins because of what happens now, and ends so.
  /// @param number  of the request, step or whatever is measured
  virtual void on_measure_begun(const char* metric, std::uint32_t number) = 0;
  /// @param parts  into which the metric divides the time
  virtual void on_measured(const char* metric, std::uint32_t number, std::uint32_t parts) = 0;

 protected:
  ~JobListener() = default;
};

}  // namespace railyard::workload
