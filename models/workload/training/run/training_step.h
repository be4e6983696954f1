// The room `run` runs optimizer steps. TrainingStep runs the slots of a schedule with the steps of SlotPlans, and owns
// what they need: PipelineExchange, GradientSync, ParameterShards, DividedWeights (gtp), ActivationOffload,
// OptimizerOffload and RankAccount. The kind `training` owns it.
//
// workload.kind: training: optimizer steps of a model on a mesh of ranks. Each pipeline rank runs the slots of its
// schedule (schedule.h), one after the other, on all its tensor- and data-parallel ranks:
//
//   [receive from the previous stage] the steps of the slot (slot_plan.h) [send to the next stage]
//
// pipeline_exchange.h sends and receives. In the backward slots of the last micro-batch, gradients are reduced bucket by
// bucket; when all slots are over, the optimizer runs and the weights are gathered (gradient_sync.h). With zero_stage 3,
// weights are gathered layer by layer (parameter_shards.h); with gtp, matrix by matrix (divided_weights.h). Jobs are
// emitted a few slots ahead, so the number of jobs in memory does not grow with micro-batches and steps.
//
// Streams of a rank: compute (kernels and the collectives of its layers), tp (collectives beside kernels), dp
// (gradients), weights (gathers of parameters), weights_again, scatter, experts, experts_again and experts_scatter (gtp),
// host (launches), cp_to and cp_from
// (ring of keys and values), ep (overlap_moe), and one for each pipeline rank and direction with which it exchanges
// activations (act) or their gradients (grad): pp_act_to_1, pp_act_from_0, pp_grad_to_0, ...
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "workload/linear/emission.h"
#include "workload/training/memory/memory_ledger.h"
#include "workload/training/run/activation_offload.h"
#include "workload/training/run/divided_weights.h"
#include "workload/training/run/gradient_sync.h"
#include "workload/training/run/parameter_shards.h"
#include "workload/training/run/pipeline_exchange.h"
#include "workload/training/run/rank_account.h"
#include "workload/training/schedule/times.h"

namespace railyard::workload::training {

using transformer::RankGroup;

class TrainingStep final : private JobClient {
 public:
  enum Stream : std::size_t { kCompute, kTp, kDp, kWeights, kHostStream };
  static const std::vector<const char*> kStreams;

  /// @pre at most TrainingJobs::kMostSlots and kMostSlotSteps
  /// @param kernels  by group of the machine
  /// @param ranks  with the streams kStreams, in the order of the mesh
  /// @param hosts  their sockets, if the spec offloads
  TrainingStep(const TrainingSpec& spec, const transformer::ModelShape& model, const Schedule& schedule,
               const SlotPlans& plans, const MemoryPlan& memory, const std::vector<gpu::KernelTimer>& kernels,
               const std::vector<Rank*>& ranks, Executor& executor, const HostSide& hosts = {});

  void start();
  bool done() const { return jobs_.step() == spec_.steps && programs_.live() == 0; }
  /// Slots that are finished, of all slots, each on each rank.
  std::uint64_t slots_done() const { return slots_done_; }
  std::uint64_t slots() const;
  /// Jobs of the run, all ranks.
  std::uint64_t expected_jobs() const;
  const Mesh& mesh() const { return mesh_; }
  const RankAccount& account(std::uint32_t rank) const { return accounts_[rank]; }
  const std::vector<GradientBucket>& buckets(std::uint32_t pipeline_rank) const {
    return gradients_.buckets(pipeline_rank);
  }
  /// Updated weights of a bucket, as ranks gather them (zero_stage 1 and 2).
  Bytes weight_bytes(const GradientBucket& bucket) const { return gradients_.weight_bytes(bucket); }
  /// Null: ranks do not divide matrices (gtp).
  const DividedWeights* divided_weights() const { return divided_.get(); }
  /// Null: no activations are offloaded.
  const ActivationOffload* activation_offload() const { return activations_.get(); }
  MemoryLedger& memory() { return memory_; }
  const MemoryLedger& memory() const { return memory_; }
  /// End of the last step.
  Time end() const { return end_; }
  /// Of the last step: the slots of the first rank of each pipeline rank, from the first start.
  ScheduleTimes slot_times() const;
  /// Of the matrices that the ranks of a pipeline rank gather in a step, and of their gradients (gtp): those of routed
  /// experts, or all others.
  double divided_weight_bytes(std::uint32_t pipeline_rank, bool experts) const;
  /// Of the saved inputs that tensor-parallel ranks gather in a step (gtp).
  double divided_input_bytes(std::uint32_t pipeline_rank) const;
  std::vector<transport::Traffic> traffic() const;

 private:
  /// Of the slots of a pipeline rank, in this step.
  struct Progress {
    std::uint32_t emitted = 0;
    std::uint32_t wanted = 0;  ///< to be emitted as soon as possible
    bool ended = false;        ///< all of them are emitted, and the reductions of gradients after them
  };
  /// Of a slot of a rank.
  struct SlotBegin {
    Time begun, ready;
  };

  bool has_ring() const { return spec_.cp() > 1 && spec_.cp_comm == transformer::ContextExchange::p2p; }
  void connect_ring(transport::Fabric& fabric);
  void divide_weights(const gpu::KernelTimer& kernels, transport::Fabric& fabric);
  void connect_hosts(const HostSide& hosts, const MemoryPlan& memory);
  /// The rank that is so many steps further in the ring.
  std::uint32_t around(std::uint32_t rank, std::uint32_t steps) const {
    return mesh_.moved(rank, Dimension::cp, (coordinate(rank, Dimension::cp) + steps) % spec_.cp());
  }
  void set_priorities();
  void allow_reuse();
  /// Whether replicas say when they begin to send. Not where weights are gathered beside kernels of all slots.
  bool announces_replicas() const { return divided_ == nullptr && spec_.zero_stage != 3; }
  /// Of a job of these; null: of another job.
  const Communicator* announced_for(const Job& job) const;
  /// Of the collectives of a group, on the rank with most.
  double most_bytes(RankGroup group) const;
  /// Of the shards of coupled products, on the rank with most. They are not replayed.
  double most_shard_bytes() const;
  void begin_step();
  /// Emits what is wanted, unless a call further up does so.
  void emit();
  void emit_slots(std::uint32_t pipeline_rank);
  /// A slot of a pipeline rank whose jobs are being emitted.
  struct Emission;
  Emission begin_slot(std::uint32_t pipeline_rank, std::uint32_t index);
  void emit_next_step(Emission& slot);
  void end_slot(Emission& slot);
  void emit_slot(std::uint32_t pipeline_rank, std::uint32_t index);
  /// A forward slot and the backward slot after it, interleaved: an exchange of one with its experts runs beside the
  /// kernels of the other.
  void emit_pair(std::uint32_t pipeline_rank, std::uint32_t index);
  /// Emits steps until an exchange with experts runs beside what follows, or until the end of the slot.
  void emit_part(Emission& slot);
  /// Whether the slot and the next one are a pair.
  bool begins_pair(std::uint32_t pipeline_rank, std::uint32_t index) const;
  /// Whether only the deferred gradients of the head's weights are left of its virtual stage.
  bool leaves_head(std::uint32_t pipeline_rank, std::uint32_t index) const;
  /// A step of a slot, on all ranks of a pipeline rank.
  void emit_step(std::uint32_t pipeline_rank, std::uint32_t index, std::uint32_t detail, const SlotStep& step,
                 bool first, bool last);
  /// A collective of a slot.
  static const collective::CollectiveSpec& choose(Communicator& communicator, const SlotStep& step);
  void emit_coupled(std::uint32_t pipeline_rank, std::uint32_t index, std::uint32_t detail, const SlotStep& step,
                    bool first, bool last);
  void emit_beside(std::uint32_t pipeline_rank, std::uint32_t index, std::uint32_t detail, const SlotStep& step);
  /// The same of an exchange with experts, in its stream.
  void emit_exchange(const Emission& e, std::uint32_t detail);
  const std::vector<JobRef>& start_exchange(Communicator& communicator, const Emission& e, std::uint32_t detail);
  /// Calls `with` for each group with experts of a pipeline rank, in that stream.
  template <class With>
  void for_exchanges(std::uint32_t pipeline_rank, With with);
  /// The framework's calls of a step in a layer with experts.
  void take_calls(std::uint32_t pipeline_rank, const SlotStep& step);
  void emit_ring(std::uint32_t pipeline_rank, std::uint32_t index, std::uint32_t detail, const SlotStep& step);
  std::uint32_t coordinate(std::uint32_t rank, Dimension d) const { return mesh_.coordinate(rank, d); }

  /// Whether the steps of a slot may be composed (execution/pass_course.h).
  bool may_compose(std::uint32_t pipeline_rank, std::uint32_t index);
  /// The steps of a slot, as a course of each tensor-parallel group.
  void emit_courses(std::uint32_t pipeline_rank, std::uint32_t index);
  /// Classes of transfers for which a job of a slot may have waited: bits of RankAccount.
  std::uint32_t waits_before(const TrainingJobs::Fields& fields) const;

  void on_job_begun(const Job& job) override;
  void on_composed(const Job& next, const std::vector<execution::ComposedPart>& parts, const Job* like) override;
  void on_job_done(const Job& job) override;
  /// With gtp. @throws std::logic_error if the job begins too early
  void check_order(const TrainingJobs::Fields& fields, std::uint32_t rank);
  /// Of the rank's program, or beside it.
  void end_rank_job(const Job& job);
  /// A copy to or from host memory, or the CPU's optimizer.
  void end_host_job(const Job& job);
  void account(const Job& job);
  void end_slot(const Job& job);

  const TrainingSpec spec_;
  const transformer::ModelShape model_;
  const Schedule schedule_;
  const SlotPlans& plans_;
  Executor& executor_;
  Mesh mesh_;
  MemoryLedger memory_;
  TrainingJobs jobs_;
  RankPrograms programs_;
  Communicators tp_, ep_, cp_;
  Communicators ep_beside_;  ///< exchanges beside kernels
  GradientSync gradients_;
  ParameterShards shards_;
  PipelineExchange pipeline_;
  std::unique_ptr<DividedWeights> divided_;  ///< with gtp
  std::unique_ptr<HostRanks> hosts_;         ///< with offload
  std::unique_ptr<ActivationOffload> activations_;
  std::unique_ptr<OptimizerOffload> optimizer_;
  /// By pipeline rank: tensor-parallel groups with their collectives beside kernels, and their coupled products.
  std::vector<std::vector<std::unique_ptr<linear::CoupledRanks>>> coupled_at_;
  std::vector<std::unique_ptr<Communicator>> ring_;   ///< by rank: to the next context-parallel rank (p2p)
  std::vector<std::vector<std::uint32_t>> ranks_at_;  ///< by pipeline rank
  std::vector<std::array<std::vector<Communicator*>, transformer::kRankGroups>>
      groups_at_;  ///< by pipeline rank and RankGroup
  std::vector<std::vector<JobRef>>
      beside_jobs_;  ///< by rank: last collective beside kernels, or both sides of a ring exchange
  /// By rank: of slots with even and odd numbers. A pair has one of each.
  std::vector<std::array<SlotBegin, 2>> slot_begins_;
  std::vector<std::vector<SlotTimes>> last_step_;  ///< by pipeline rank; of its first rank
  std::vector<Progress> progress_;                 ///< by pipeline rank
  std::vector<RankAccount> accounts_;
  GradientSync::LayerEnds ends_before_head_;            ///< of the layers of the virtual stage with the deferred head
  std::unordered_map<const SlotPlan*, bool> is_plain_;  ///< whether its slots may be composed
  std::unordered_map<const Communicator*, execution::CourseMemory> course_memories_;
  std::uint32_t ended_ = 0;  ///< pipeline ranks whose slots of this step are all emitted
  std::uint64_t slots_done_ = 0;
  bool emitting_ = false;
  Time end_;
};

}  // namespace railyard::workload::training
