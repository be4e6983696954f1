// jobs.csv, written during the run when jobs end: name,kind,rank,start_s,end_s,queued_s,bytes.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "execution/job_record.h"
#include "sc_main/command_line.h"
#include "sc_main/ordered_rows.h"

namespace railyard {

/// Femtoseconds as decimal seconds.
std::string exact_seconds(Time t);

class JobsCsv : public execution::JobSink {
 public:
  /// Before this call, and with JobsLevel::none, nothing is written.
  void open(const std::string& path, JobsLevel level);
  /// Another sink that receives every job at any level.
  void forward_to(execution::JobSink& next) { next_ = &next; }
  bool takes(execution::Recorded recorded) const override;
  void on_job(const execution::JobRecord& record) override;
  void close();

 private:
  JobsLevel level_ = JobsLevel::none;
  std::unique_ptr<OutputFile> out_;
  std::optional<OrderedRows> rows_;
  execution::JobSink* next_ = nullptr;
};

}  // namespace railyard
