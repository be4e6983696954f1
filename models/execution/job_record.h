// The record of a finished job: a row of jobs.csv, a slice of a timeline.
#pragma once

#include <cstdint>
#include <string>

#include "base/units.h"
#include "execution/job_label.h"

namespace railyard::execution {

struct JobRecord {
  JobLabel label;
  std::uint32_t rank = 0;  ///< of a collective: rank of its first member
  Time start, end;         ///< of a collective: entry of the first member, end of the last member
  Time queued;  ///< time behind other jobs of its stream after all jobs for which it waits were done; of a collective:
                ///< until the last member entered
  Bytes bytes = 0;

  std::string name() const { return label.name(); }
  const char* kind() const { return label.kind(); }
};

/// Receives every job that has a row, at the end of the job. Names can be rendered only during the call.
class JobSink {
 public:
  /// Whether rows of such jobs matter. If those of `detail` do not, passes can be composed (pass_course.h).
  virtual bool takes([[maybe_unused]] Recorded recorded) const { return true; }
  virtual void on_job(const JobRecord& record) = 0;

 protected:
  ~JobSink() = default;
};

}  // namespace railyard::execution
