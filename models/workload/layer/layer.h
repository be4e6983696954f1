// workload.kind: layer: one transformer layer, kernel by kernel, on tensor-parallel ranks, its collectives on the fabric. All
// ranks begin together; what a step takes is told as the first rank has it.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "collective/tuner.h"
#include "workload/job.h"
#include "workload/job_record.h"
#include "workload/layer/plan.h"
#include "workload/rank_set.h"
#include "workload/traffic.h"

namespace railyard::workload::layer {

/// What a step took on the first rank; of a collective with what it ran as.
struct StepResult {
  Time start, end;
  collective::CollectiveSpec collective;
};

class Layer : private JobClient {
 public:
  /// @param gpus  by rank
  Layer(const LayerSpec& spec, std::vector<LayerStep> steps, const std::vector<gpu::Gpu*>& gpus,
        transport::Fabric& fabric, JobSink& sink);

  void start();
  bool done() const { return finished() == steps_.size(); }
  const std::vector<LayerStep>& steps() const { return steps_; }
  /// Steps that are over on every rank.
  std::size_t finished() const;
  const std::vector<StepResult>& results() const { return results_; }
  std::uint32_t ranks() const { return ranks_.size(); }
  RankDevice& rank(std::uint32_t r) { return *ranks_.devices[r]; }
  const collective::Group& group() const { return ranks_.group; }
  Dispatcher& dispatcher() { return dispatcher_; }
  /// How a collective of the plan runs.
  collective::CollectiveSpec choose(const LayerStep& step) const;
  std::vector<std::string> blocked() const;
  std::string label(const Job& job) const { return steps_[job.tag().run].name; }

 private:
  void on_job_begun(const Job&) override {}
  void on_job_done(const Job& job) override;
  void on_collective_done(const collective::Collective& collective, const JobTag& tag) override;
  std::string name_of(JobKind kind, const JobTag& tag) const override { return record_of(kind, tag).name(); }
  JobRecord record_of(JobKind kind, const JobTag& tag) const;

  LayerSpec spec_;
  std::vector<LayerStep> steps_;
  transport::Fabric& fabric_;
  Dispatcher dispatcher_;
  JobSink& sink_;
  RankSet ranks_;
  std::vector<StepResult> results_;
  std::vector<std::uint32_t> left_;  ///< of each step: ranks that have it before them
};

}  // namespace railyard::workload::layer
