// What is told of a job when it is over: a row of jobs.csv, a slice of a timeline.
#pragma once

#include <cstdint>
#include <string>

#include "base/units.h"
#include "execution/job_label.h"

namespace railyard::execution {

struct JobRecord {
  JobLabel label;
  std::uint32_t rank = 0;  ///< of a collective its first member's
  Time start, end;         ///< of a collective: the first member entered, the last one was done
  Time queued;  ///< behind other work in its stream, once all it waits for was done; of a collective: until the last
                ///< member entered
  Bytes bytes = 0;

  std::string name() const { return label.name(); }
  const char* kind() const { return label.kind(); }
};

/// Told of every job that has a row, when the job is over. Names can be rendered during the call only.
class JobSink {
 public:
  virtual void on_job(const JobRecord& record) = 0;

 protected:
  ~JobSink() = default;
};

}  // namespace railyard::execution
