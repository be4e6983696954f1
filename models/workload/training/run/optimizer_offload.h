// The optimizer on the CPU (TrainingSpec::offload; ZeRO-Offload, Ren et al., arXiv 2101.06840), bucket by bucket and for what a rank owns
// of it (zero_stage):
//
//   gradients go down as soon as they are reduced (zero_stage 2 and 3: after the last micro-batch)
//   the CPU runs Adam when it has them and the norm: bytes / rate of the socket's memory; ranks of a socket take turns
//   weights come up, and the rank goes on when all have arrived
#pragma once

#include <vector>

#include "workload/training/run/host_ranks.h"
#include "workload/training/run/training_jobs.h"

namespace railyard::workload::training {

class OptimizerOffload {
 public:
  /// Adds streams. @param precision  of the state
  OptimizerOffload(const TrainingSpec& spec, const transformer::StatePrecision& precision, const Mesh& mesh,
                   HostRanks& hosts, const TrainingJobs& jobs);

  /// The gradients of so many parameters of a bucket leave.
  void send_gradients(std::uint32_t rank, std::uint32_t bucket, std::uint64_t parameters, JobRef after);
  /// Updates all that has been sent. @param after  what the optimizer waits for
  /// @return the weights are back
  std::vector<JobRef> update(std::uint32_t rank, const std::vector<JobRef>& after, RankPrograms& programs);
  /// @param parameters  that the rank owns, of a step
  void add_traffic(std::vector<transport::Traffic>& all, std::uint32_t rank, double parameters) const;
  /// Traffic of the CPU's memory for each parameter.
  Bytes adam_bytes() const { return precision_.adam_bytes(precision_.gradients); }

 private:
  struct Sent {
    std::uint32_t bucket = 0;
    std::uint64_t parameters = 0;
    JobRef job;
  };

  const TrainingSpec& spec_;
  const transformer::StatePrecision precision_;
  HostRanks& hosts_;
  const TrainingJobs& jobs_;
  std::vector<std::vector<Sent>> sent_;          ///< by rank, of this step
  std::vector<std::size_t> down_, update_, up_;  ///< streams, by rank: its own, and two of its socket
};

}  // namespace railyard::workload::training
