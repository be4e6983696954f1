// What data-parallel ranks do together: gradients are reduced bucket by bucket (gradient_buckets.h), the norm of all
// gradients is computed, the optimizer runs, and the weights are gathered (zero_stage 1 and 2). Gradients of experts
// are reduced over the ranks that hold the same experts, gradients of shards (gtp) over those with the same shard. With
// hsdp, groups of ranks divide state: gradients are reduce-scattered in a group, then all-reduced over the groups.
//
// A bucket is reduced when the program of each rank has produced its last gradient; bucket and backward slots overlap.
// With param_gather_overlap, a step begins with its gathers: the weights that the optimizer of the step before has
// updated arrive beside forward slots, which wait for the layers that they need. So each step, from the end of an
// optimizer to the end of the next, has the same work, the first one as well. Otherwise gathers are the end of an
// optimizer's work.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "workload/parallel/mesh.h"
#include "workload/program/rank_programs.h"
#include "workload/training/plan/gradient_buckets.h"
#include "workload/training/run/optimizer_offload.h"
#include "workload/training/run/training_jobs.h"

namespace railyard::workload::training {

/// What the members of communicators send, at the most.
struct GroupTraffic {
  const Communicators* communicators;
  double bytes_per_rank;
};

class GradientSync {
 public:
  /// Streams of a rank: for gradients and for weights.
  struct Streams {
    std::size_t compute, gradients, weights;
  };
  /// The last job of a rank in a layer, and its place in the rank's program.
  struct LayerEnd {
    JobRef job;
    Time place;
  };
  /// By (rank, layer).
  using LayerEnds = std::map<std::pair<std::uint32_t, std::uint32_t>, LayerEnd>;

  /// @param kernels  by group of the machine
  /// @param tp  communicators of the tensor-parallel ranks, in the stream of the programs
  GradientSync(const TrainingSpec& spec, const transformer::ModelShape& model, const Schedule& schedule,
               const SlotPlans& plans, const std::vector<gpu::KernelTimer>& kernels, const Mesh& mesh,
               const Streams& streams, const Communicators& tp, transport::Fabric& fabric, const TrainingJobs& jobs,
               RankPrograms& programs);

  /// Before the first step: the CPU runs the optimizer.
  void set_offload(OptimizerOffload& offload) { offload_ = &offload; }
  /// Weights that overlap with the step's slots begin to be gathered.
  void begin_step();
  const std::vector<GradientBucket>& buckets(std::uint32_t pipeline_rank) const { return buckets_[pipeline_rank]; }
  /// Whether the slot is the last one of its pipeline rank that adds to the gradients of a virtual stage.
  bool has_last_gradients(std::uint32_t pipeline_rank, std::uint32_t stage, std::uint32_t index) const;
  /// Whether a bucket has gradients of the head that are deferred.
  bool has_deferred_head(const GradientBucket& bucket) const;
  /// A forward slot waits for the weights of a layer that are being gathered.
  void wait_for_weights(std::uint32_t rank, std::uint32_t layer);
  /// Whether all updated weights of a rank have arrived.
  bool has_weights(std::uint32_t rank) const {
    return std::all_of(gathered_[rank].begin(), gathered_[rank].end(), execution::Executor::is_done);
  }
  /// Reduces the buckets of a virtual stage, or of all; that of a deferred head comes last.
  /// @param ends  the jobs that produce a layer's last gradients; ranks without one: their last job
  void reduce(std::uint32_t pipeline_rank, std::optional<std::uint32_t> stage, const LayerEnds& ends);
  /// After all slots of all ranks.
  void end_step();
  /// The ranks that divide state, in the stream of weights.
  const Communicators& weights() const { return weights_; }
  const Communicators& expert_weights() const { return expert_weights_; }
  /// Of first and last stage, if they reduce gradients of tied embeddings; in the stream of the programs.
  const Communicators& tied() const { return tied_; }
  Bytes tied_bytes() const;
  /// Of all steps.
  std::vector<GroupTraffic> traffic() const;
  /// Says when stages may send to each other (RankPrograms::announce()). @param replicas  and these. @pre without gtp and zero_stage 3
  void announce(bool replicas);
  /// Of the jobs that they run; null: of other jobs.
  const Communicator* communicator_of(const Job& job) const;
  /// Parameters whose optimizer state a rank holds.
  std::uint64_t owned(std::uint32_t rank) const;
  /// Updated weights of a bucket, as ranks gather them (zero_stage 1 and 2).
  Bytes weight_bytes(const GradientBucket& bucket) const;

 private:
  static constexpr Bytes kNormBytes = 4;  ///< the norm of gradients

  const Communicators& reducing(const GradientBucket& bucket) const {
    return bucket.experts ? expert_dp_ : bucket.whole ? whole_dp_ : dp_;
  }
  const Communicators& gathering(const GradientBucket& bucket) const {
    return bucket.experts ? expert_weights_ : bucket.whole ? whole_weights_ : weights_;
  }
  /// With hsdp.
  void connect_shards(const Streams& streams, const collective::CollectiveRequest& gradients,
                      const collective::CollectiveRequest& weights, transport::Fabric& fabric);
  void connect_ends(const Schedule& schedule, std::size_t stream, transport::Fabric& fabric);
  void connect_norms(std::size_t stream, const collective::CollectiveRequest& request, transport::Fabric& fabric);
  /// Gradients are divided among replicas while they add up.
  std::uint64_t gradient_parts() const { return spec_.zero_stage >= 2 ? spec_.state_shards() : 1; }
  /// Gradients that tensor-parallel ranks, or first and last stage, have parts of.
  void reduce_parts();
  /// @return by rank: the last job that its norm needs
  std::vector<JobRef> find_norm();
  void reduce_bucket(std::uint32_t pipeline_rank, std::uint32_t bucket, const LayerEnds& ends);
  /// hsdp: after reduce_bucket().
  void reduce_shards(std::uint32_t pipeline_rank, std::uint32_t bucket, const LayerEnds& ends);
  /// Where a rank has the last gradient of a bucket.
  LayerEnd end_of(const GradientBucket& bucket, std::uint32_t rank, const LayerEnds& ends) const;
  /// The weights that the last optimizer has updated, in the order of forward slots.
  void gather_weights();
  void gather_bucket(std::uint32_t pipeline_rank, std::uint32_t bucket);
  /// Of a bucket.
  std::uint64_t owned(std::uint32_t rank, const GradientBucket& bucket) const;
  /// HBM traffic that writes narrow weights for the next step, from gathered ones or from shards (gtp).
  double narrowing_bytes(std::uint64_t weights) const;
  /// Where a tensor has one scale, ranks with other shards of the same matrices agree on their maxima first (gtp).
  bool agrees_on_maxima() const;
  void optimize(std::uint32_t rank);
  /// The kernels of all ranks that follow those of the optimizer.
  void narrow_shards();
  std::uint32_t pipeline_rank(std::uint32_t rank) const { return mesh_.coordinate(rank, Dimension::pp); }
  const gpu::KernelTimer& kernels_of(std::uint32_t rank) const { return kernels_[spec_.group_of(pipeline_rank(rank))]; }

  const TrainingSpec& spec_;
  const transformer::ModelShape& model_;
  const std::vector<gpu::KernelTimer>& kernels_;
  const Mesh& mesh_;
  const TrainingJobs& jobs_;
  RankPrograms& programs_;
  const Communicators& tp_;
  OptimizerOffload* offload_ = nullptr;
  /// Gradients and weights: of experts, of what gtp ranks do not divide, and of all else.
  Communicators dp_, weights_, expert_dp_, expert_weights_, whole_dp_, whole_weights_;
  Communicators same_shard_;  ///< gradients; ranks with the same shard (hsdp)
  Communicators norm_;        ///< ranks with the same place in tensor parallelism; post_validation: and the same stage
  Communicators tied_;
  Communicators maxima_;               ///< ranks with other shards of the same matrices (gtp)
  std::vector<std::uint64_t> shards_;  ///< by pipeline rank: narrow ones
  /// Post-validation: from each stage to the next one, by pipeline rank of the sender.
  std::vector<Communicators> norm_pass_;
  std::vector<std::uint64_t> shared_gradients_;                                  ///< by pipeline rank
  std::vector<std::vector<GradientBucket>> buckets_;                             ///< by pipeline rank
  std::vector<std::map<std::uint32_t, std::vector<std::uint32_t>>> buckets_of_;  ///< by pipeline rank: layer -> buckets
  std::vector<std::vector<std::uint32_t>> last_gradients_;  ///< by pipeline rank and stage: last such slot
  std::vector<double> narrowing_bytes_;                     ///< by pipeline rank
  std::vector<std::uint64_t> narrow_weights_;               ///< by pipeline rank
  std::vector<std::vector<JobRef>> reduced_;                ///< by rank and bucket, in this step
  std::vector<std::vector<JobRef>> gathered_;               ///< by rank and bucket: the latest weights
};

}  // namespace railyard::workload::training
