// Reports causes from job to job: which jobs were done when a job began. Used by probe/critical_path.h.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/units.h"

namespace railyard::execution {

class Job;

class JobListener {
 public:
  /// Called when a job is created; the event being processed is its cause. Its stream may begin it next.
  virtual void on_emitted(const Job& job) = 0;
  /// `done` is one of the jobs that `job` waits for.
  virtual void on_waited(const Job& job, const Job& done) = 0;
  /// Called before the job's client is notified; the job's begin is the event that its client processes.
  virtual void on_begun(const Job& job) = 0;
  /// The client has been notified, unless the job is cancelled.
  virtual void on_begin_told() {}
  /// Called before the job's client and its dependents are notified.
  virtual void on_done(const Job& job) = 0;
  /// Just before the job enters its collective: it was ready before, and waited for the member that entered last.
  virtual void on_waited_for_peer(const Job& job, const Job& last) = 0;
  /// A condition of `gate` is met now; on_passed(gate) follows when all are met. Gates are numbered by their owner.
  virtual void on_reached(const void* owner, std::uint32_t gate) = 0;
  /// All conditions of `gate` are met; together they are the cause of the event being processed.
  virtual void on_passed(const void* owner, std::uint32_t gate) = 0;
  /// A scheduler composes a batch of what is there. Requests have gates with their numbers, which are met when they are in
  /// the scheduler's queue. The scheduler waits for no request, unless it has none.
  /// @param ready  gate of what the scheduler needs besides requests: progress of its earlier batches
  /// @param taken  requests that are in a batch of this scheduler for the first time
  /// @param reserved  requests that leave the queue, with memory for KV that is somewhere else: they come again when it is here
  /// @param has_others  other requests are running
  virtual void on_composed(const void* /*owner*/, std::uint32_t /*ready*/, const std::vector<std::uint32_t>& /*taken*/,
                           const std::vector<std::uint32_t>& /*reserved*/, bool /*has_others*/) {}
  /// A request arrives from outside the model: the event being processed has no job as its cause.
  /// @param after  the request whose answer the client has waited for, if any
  virtual void on_arrived(std::optional<std::uint32_t> after) = 0;
  /// A request is done. @param awaiting  requests that will arrive because of it
  virtual void on_answered(std::uint32_t /*request*/, std::uint32_t /*awaiting*/) {}
  // A measurement for a metric of the summary. The event being processed is the cause of its begin and of its end.
  /// @param number  of the request, step or other unit that is measured
  virtual void on_measure_begun(const char* metric, std::uint32_t number) = 0;
  /// A part of it: from then until now the request has waited in the router for an instance with room.
  virtual void on_held(const char* /*metric*/, std::uint32_t /*number*/, Time /*since*/) {}
  /// @param parts  number of parts into which the metric divides the time
  virtual void on_measured(const char* metric, std::uint32_t number, std::uint32_t parts) = 0;

 protected:
  ~JobListener() = default;
};

}  // namespace railyard::execution
