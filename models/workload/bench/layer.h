// workload.kind: layer: one transformer layer, kernel by kernel, on tensor-parallel ranks, with its collectives on the
// fabric. All ranks begin together. Reported step times are those of rank 0.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "workload/bench/layer_steps.h"
#include "workload/program/rank_programs.h"

namespace railyard::workload::layer {

/// Times of a step on rank 0; for a collective, also the spec with which it ran.
struct StepResult {
  Time start, end;
  collective::CollectiveSpec collective;
};

class Layer final : private JobClient, private JobNamer {
 public:
  /// @param ranks  each has a stream for kernels and collectives, and another one for collectives beside kernels, if the
  ///               steps have any
  Layer(const LayerSpec& spec, std::vector<LayerStep> steps, const std::vector<Rank*>& ranks, Executor& executor);

  void start();
  bool done() const { return finished() == steps_.size(); }
  const std::vector<LayerStep>& steps() const { return steps_; }
  /// Number of steps that are finished on every rank.
  std::size_t finished() const;
  const std::vector<StepResult>& results() const { return results_; }
  std::uint32_t ranks() const { return communicator_.size(); }
  const collective::Group& group() const { return communicator_.group(); }
  /// Algorithm, protocol and channels of a collective of the plan.
  const collective::CollectiveSpec& choose(const LayerStep& step) {
    return communicator_.choose(step.operation, step.bytes);
  }

 private:
  void on_job_done(const Job& job) override;
  // Layer_TP[t]_Step[i]: a kernel; Layer_AR_Step[i]: a collective, with AG or RS instead of AR.
  struct Fields {
    std::uint32_t step, tp;
  };
  std::string name(std::uint64_t arguments) const override;
  std::string task(std::uint64_t arguments) const override;
  const char* kind(std::uint64_t arguments) const override;
  Recorded recorded(std::uint64_t) const override { return Recorded::stage; }

  std::vector<LayerStep> steps_;
  Communicator communicator_;
  std::optional<Communicator> beside_;  ///< in the other stream
  RankPrograms programs_;
  transport::Fabric& fabric_;
  std::vector<StepResult> results_;
  std::vector<std::uint32_t> left_;  ///< of each step: ranks that have not finished it yet
};

}  // namespace railyard::workload::layer
