// For who follows causes from job to job: which jobs were done when another one began (probe/critical_path.h).
#pragma once

#include <cstdint>

#include "base/units.h"

namespace railyard::execution {

class Job;

class JobListener {
 public:
  /// Called when a job is created; the event being processed is its cause. Its stream may begin it next.
  virtual void on_emitted(const Job& job) = 0;
  /// `done` is one of the jobs that `job` waits for.
  virtual void on_waited(const Job& job, const Job& done) = 0;
  virtual void on_begun(const Job& job) = 0;
  /// Called before its client and its dependents are told.
  virtual void on_done(const Job& job) = 0;
  /// One of the conditions of `gate` is met now; on_passed(gate) follows when all are. Gates are numbered by their owner.
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

}  // namespace railyard::execution
