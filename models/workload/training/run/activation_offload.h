// Activations that leave for host memory and come back (TrainingSpec::offload). A rank has a stream for each direction; its GPU's
// copy engines move the bytes over PCIe or C2C, beside kernels and all other messages.
//
//   forward   after a layer, its copy to the host begins. The layer after the next one waits for it, because it takes its
//             memory (TransformerEngine, cpu_offload.py: compute and copies wait for each other once a layer)
//   backward  when a layer begins, the copy of the layer `prefetch_layers` before it begins; a layer waits for its own.
//             The first copies of a slot begin when the slot before it has ended
//   slots     a slot begins when no copy to the host is under way
//
// So if the bytes of a layer take longer than its kernels, forward slots take bytes / rate; otherwise copies are hidden, but for
// the last layer's if it leaves, too.
#pragma once

#include <deque>
#include <unordered_map>
#include <vector>

#include "workload/program/rank_programs.h"
#include "workload/training/memory/memory_ledger.h"
#include "workload/training/run/host_ranks.h"
#include "workload/training/run/training_jobs.h"

namespace railyard::workload::training {

class ActivationOffload {
 public:
  /// Adds a stream for each direction.
  ActivationOffload(const TrainingSpec& spec, const Schedule& schedule, const MemoryPlan& plan, const Mesh& mesh,
                    HostRanks& hosts, const TrainingJobs& jobs, RankPrograms& programs, MemoryLedger& memory);

  // What is emitted, on all ranks of a pipeline rank.
  /// Before the first job of a layer, or of an end of the model. @param first  of the slot
  void before_layer(std::uint32_t pipeline_rank, std::uint32_t slot, std::uint32_t layer, bool first);
  /// After the last job of a layer, or of an end of the model.
  void after_layer(std::uint32_t pipeline_rank, std::uint32_t slot, std::uint32_t layer);

  // What runs.
  /// A job of a slot begins in the compute stream of a rank.
  void on_step_begun(std::uint32_t rank, const TrainingJobs::Fields& fields, Time now);
  /// A job ends in the compute stream of a rank.
  void on_step_done(std::uint32_t rank, const Job& job, Time now);
  void on_copy_begun(const Job& job, Time now);
  void on_copy_done(const Job& job, Time now);

  /// Over all ranks.
  Bytes stored() const { return stored_; }
  Bytes loaded() const { return loaded_; }
  /// Copies of a run, in both directions.
  std::uint64_t copies() const;
  void add_traffic(std::vector<transport::Traffic>& all) const;

 private:
  /// A layer whose backward pass ends with this job of the compute stream.
  struct Ending {
    JobRef last;
    Bytes bytes = 0;
  };
  struct State {
    std::vector<JobRef> stores;                       ///< of the last forward slot that was emitted, in order
    std::unordered_map<std::uint32_t, JobRef> loads;  ///< by layer, of the backward slot that is emitted
    std::deque<Ending> endings;
    std::uint32_t step = ~0u, slot = ~0u, layer = ~0u;  ///< that run
  };
  const Slot& slot_of(std::uint32_t pipeline_rank, std::uint32_t slot) const {
    return schedule_.slots[pipeline_rank][slot];
  }
  /// Nothing for an end of the model.
  Bytes bytes_of(std::uint32_t stage, std::uint32_t layer) const;
  /// Place of a layer, or of an end, in the order of a backward slot.
  std::uint32_t place_of(std::uint32_t stage, std::uint32_t layer, bool first) const;
  /// Begins the copy of what is at a place. @param after  jobs that come before
  void load(std::uint32_t rank, std::uint32_t slot, std::uint32_t place, const std::vector<JobRef>& after);

  const TrainingSpec& spec_;
  const Schedule& schedule_;
  const MemoryPlan& plan_;
  const Mesh& mesh_;
  HostRanks& hosts_;
  const TrainingJobs& jobs_;
  RankPrograms& programs_;
  MemoryLedger& memory_;
  const std::vector<transformer::Stage> stages_;
  std::vector<std::vector<std::uint32_t>> ranks_at_;  ///< by pipeline rank
  std::vector<State> states_;                         ///< by rank
  std::vector<std::size_t> store_, load_;             ///< streams, by rank: its own, and its socket's
  Bytes stored_ = 0, loaded_ = 0;
};

}  // namespace railyard::workload::training
