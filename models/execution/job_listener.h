// Reports causes from job to job: which jobs were done when a job began. Used by probe/critical_path.h.
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
  /// Called before the job's client and its dependents are notified.
  virtual void on_done(const Job& job) = 0;
  /// A condition of `gate` is met now; on_passed(gate) follows when all are met. Gates are numbered by their owner.
  /// Just before the job enters its collective: it was ready before, and waited for the member that entered last.
  virtual void on_waited_for_peer(const Job& job, const Job& last) = 0;
  virtual void on_reached(const void* owner, std::uint32_t gate) = 0;
  /// All conditions of `gate` are met; together they are the cause of the event being processed.
  virtual void on_passed(const void* owner, std::uint32_t gate) = 0;
  /// An arrival from outside the model: the event being processed has no job as its cause.
  virtual void on_arrived() = 0;
  // A measurement for a metric of the summary. The event being processed is the cause of its begin and of its end.
  /// @param number  of the request, step or other unit that is measured
  virtual void on_measure_begun(const char* metric, std::uint32_t number) = 0;
  /// @param parts  number of parts into which the metric divides the time
  virtual void on_measured(const char* metric, std::uint32_t number, std::uint32_t parts) = 0;

 protected:
  ~JobListener() = default;
};

}  // namespace railyard::execution
