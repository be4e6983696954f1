// Weights that data-parallel ranks divide among themselves (zero_stage 3): before a layer runs, its weights are gathered,
// beside the layers before it. All slots of a step are one chain of layers (weight_chain.h), `prefetch_layers` ahead.
#pragma once

#include <vector>

#include "workload/parallel/mesh.h"
#include "workload/training/run/training_jobs.h"
#include "workload/training/run/weight_chain.h"

namespace railyard::workload::training {

class ParameterShards {
 public:
  /// @param weights, experts  communicators of the ranks that divide the weights of experts, and all others
  ParameterShards(const TrainingSpec& spec, const transformer::ModelShape& model, const Mesh& mesh,
                  const Communicators& weights, const Communicators& experts, const TrainingJobs& jobs,
                  RankPrograms& programs);

  /// The first gathers of a step follow the optimizer of the step before.
  void begin_step();
  /// The programs of these ranks have come to the end of a layer.
  void end_layer(const std::vector<std::uint32_t>& ranks) { chain_.next_unit(ranks); }
  /// Gathers the weights of a layer or an end on the ranks of a pipeline rank; their programs wait for them.
  /// @param layer  SlotStep::kEnds: the embedding, or the head
  void gather(std::uint32_t pipeline_rank, std::uint32_t slot, std::uint32_t layer, bool is_head);

 private:
  const TrainingSpec& spec_;
  const transformer::ModelShape& model_;
  const TrainingJobs& jobs_;
  std::vector<std::uint32_t> ranks_;
  WeightChain chain_;
  std::vector<std::vector<Communicator*>> weights_at_, experts_at_;  ///< by pipeline rank; of two ranks or more
};

}  // namespace railyard::workload::training
