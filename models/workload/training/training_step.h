// workload.kind: training: optimizer steps of a model on a mesh of ranks. Each pipeline rank runs the slots of its
// schedule (schedule.h), one after the other, on all its tensor- and data-parallel ranks:
//
//   [receive from the previous stage] the steps of the slot (slot_plan.h) [send to the next stage]
//
// Jobs are emitted a few slots ahead, so the number of jobs in memory does not grow with micro-batches and steps. In the
// backward slots of the last micro-batch, gradients are reduced bucket by bucket; when all slots are over, the
// optimizer runs and the weights are gathered (gradient_sync.h).
//
// Streams of a rank: compute (kernels and the collectives of its layers), tp (collectives beside kernels), dp
// (gradients), weights (gathers of parameters), host (launches), cp_to and cp_from (ring of keys and values), and one for
// each pipeline rank and direction with which it exchanges activations (act) or their gradients (grad): pp_act_to_1,
// pp_act_from_0, pp_grad_to_0, ...
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "transport/study/fidelity_choice.h"
#include "workload/parallel/mesh.h"
#include "workload/training/gradient_buckets.h"
#include "workload/training/memory_plan.h"
#include "workload/training/rank_account.h"
#include "workload/training/slot_plan.h"

namespace railyard::workload::training {

using transformer::RankGroup;

class TrainingStep : private JobClient, private JobNamer {
 public:
  enum Stream : std::size_t { kCompute, kTp, kDp, kWeights, kHostStream };
  static const std::vector<const char*> kStreams;

  // Most slots of a pipeline rank, and most steps of a slot: a job's label has so many bits for their numbers.
  static constexpr std::size_t kMostSlots = 1u << 17, kMostSlotSteps = (1u << 13) - 1;

  /// @pre at most kMostSlots and kMostSlotSteps
  /// @param ranks  with the streams kStreams, in the order of the mesh
  TrainingStep(const TrainingSpec& spec, const transformer::ModelShape& model, const Schedule& schedule,
               const SlotPlans& plans, const MemoryPlan& memory, const gpu::KernelTimer& kernels,
               const std::vector<Rank*>& ranks, Executor& executor);

  void start();
  bool done() const { return steps_emitted_ == spec_.steps && live_ == 0; }
  /// Slots that are finished, of all slots, each on each rank.
  std::uint64_t slots_done() const { return slots_done_; }
  std::uint64_t slots() const;
  /// Jobs of the run, all ranks.
  std::uint64_t expected_jobs() const;
  const Mesh& mesh() const { return mesh_; }
  const RankAccount& account(std::uint32_t rank) const { return accounts_[rank]; }
  const std::vector<GradientBucket>& buckets(std::uint32_t pipeline_rank) const { return buckets_[pipeline_rank]; }
  /// End of the last step.
  Time end() const { return end_; }
  /// Bytes of the activations that a rank sends to the next stage.
  Bytes activation_bytes() const;
  std::vector<transport::Traffic> traffic() const;

 private:
  enum What : std::uint8_t {
    kKernels,     ///< of a step of a slot
    kCollective,  ///< of a step of a slot
    kBeside,      ///< the same, beside kernels
    kSend,        ///< of activations or their gradients
    kReceive,
    kGradients,   ///< reduction of a bucket
    kNorm,        ///< kernel
    kNormReduce,  ///< over the tensor-parallel ranks, then over all others, so that each keeps to its own links
    kOptimizer,
    kGather,       ///< of the weights of a bucket
    kLayerGather,  ///< of the weights of a layer
    kHost,
    kHostWait,  ///< the host has waited for the norm, or for a slot's exchange with other stages
    kSlot       ///< all of a slot on a rank: a row, not a job
  };
  struct Fields {
    std::uint64_t what : 5, slot : 17, detail : 13, rank : 17, first : 1, last : 1, step : 10;
  };
  /// Detail of a label: the embedding or the head.
  static constexpr std::uint32_t kEndsDetail = kMostSlotSteps;
  static constexpr Bytes kNormBytes = 4;  ///< the norm of gradients
  static TrafficClass class_of(RankGroup group);
  static Fields fields_of(const Job& job) { return job.label().as<Fields>(); }

  /// Sends from one pipeline rank to another one, of activations or of gradients.
  struct Link {
    std::uint32_t from, to;  ///< pipeline ranks
    bool gradients;
    bool operator<(const Link& o) const { return std::tie(from, to, gradients) < std::tie(o.from, o.to, o.gradients); }
  };
  /// Of the slots of a pipeline rank, in this step.
  struct Progress {
    std::uint32_t emitted = 0;
    std::uint32_t wanted = 0;  ///< to be emitted as soon as possible
    bool flushed = false;      ///< all of them are emitted, and the reductions of gradients after them
  };
  /// Jobs for which a rank's next jobs may have to wait.
  struct RankState {
    JobRef last, before;                       ///< last compute job of the latest slot, and of the slot before
    std::vector<JobRef> sends;                 ///< of the latest slot
    std::vector<JobRef> waits;                 ///< for which the next compute job waits
    std::map<Link, std::uint32_t> received;    ///< receives that are emitted, in this step
    std::map<std::uint32_t, JobRef> arrivals;  ///< receives for slots that are not emitted yet, by slot
    std::vector<JobRef> beside;                ///< last collective beside kernels, or both sides of a ring exchange
    std::deque<JobRef> layers;                 ///< last compute jobs of the latest layers, the oldest first
    // The host launches kernels one by one, in program order.
    Time launched;                 ///< when it has launched all that is emitted; without what is queued
    Time queued;                   ///< launches after the last wait of the host
    std::uint32_t host_waits = 0;  ///< kHostWait jobs that are not done
    Time slot_begun, slot_ready;
  };
  /// The last job of a rank in a layer, by (rank, layer).
  using LayerEnds = std::map<std::pair<std::uint32_t, std::uint32_t>, JobRef>;

  Link link(std::uint32_t from_stage, std::uint32_t to_stage) const;
  void connect_pipeline(transport::Fabric& fabric);
  bool has_ring() const { return spec_.cp() > 1 && spec_.cp_comm == transformer::ContextExchange::p2p; }
  void connect_ring(transport::Fabric& fabric);
  /// The rank that is so many steps further in the ring.
  std::uint32_t around(std::uint32_t rank, std::uint32_t steps) const {
    return mesh_.moved(rank, Dimension::cp, (place(rank, Dimension::cp) + steps) % spec_.cp());
  }
  void allow_reuse();
  const Communicators& reducing(const GradientBucket& bucket) const { return bucket.experts ? expert_dp_ : dp_; }
  const Communicators& gathering(const GradientBucket& bucket) const {
    return bucket.experts ? expert_weights_ : weights_;
  }
  /// Of the collectives of a group, on the rank with most.
  double most_bytes(RankGroup group) const;
  void begin_step();
  /// Emits what is wanted, unless a call further up does so.
  void emit();
  void emit_slots(std::uint32_t pipeline_rank);
  void emit_slot(std::uint32_t pipeline_rank, std::uint32_t index);
  /// Without pp_overlap, a rank sends what a slot produced and receives what its next slot needs at the same time, and
  /// waits for both. With virtual stages, forward and backward slots that take turns do so in pairs (Megatron-LM,
  /// send_forward_backward_recv_forward_backward): one by one, a cycle of ranks would wait for each other. Whether this
  /// slot is the backward slot of a pair.
  bool ends_pair(std::uint32_t pipeline_rank, std::uint32_t index) const;
  /// zero_stage 3: gathers the weights of a layer or an end, for which the next step waits.
  void gather(std::uint32_t pipeline_rank, std::uint32_t index, std::uint32_t layer, bool is_head);
  /// Weights of a layer on a tensor-parallel rank; of an end, if `layer` is SlotStep::kEnds.
  Bytes weight_bytes(std::uint32_t layer, bool is_head) const;
  bool host_launches() const;
  /// The host waits for the jobs, then goes on to launch kernels. The last of `jobs` becomes the wait. Without overlap
  /// of sends and receives, frameworks do so before each slot (Megatron-LM, p2p_communication.py: torch.cuda.synchronize
  /// after batch_isend_irecv), so launches cannot run ahead into the next slot.
  void wait_on_host(std::uint32_t rank, std::vector<JobRef>& jobs, std::uint32_t slot);
  /// The host launches so many kernels of a rank; its next compute job waits for that.
  void launch(std::uint32_t rank, std::uint32_t kernels);
  /// A step of a slot, on all ranks of a pipeline rank.
  void emit_step(std::uint32_t pipeline_rank, const JobLabel& of_step, const SlotStep& step);
  void emit_beside(std::uint32_t pipeline_rank, std::uint32_t index, std::uint32_t detail, const SlotStep& step);
  void emit_ring(std::uint32_t pipeline_rank, std::uint32_t index, std::uint32_t detail, const SlotStep& step);
  void receive(const Slot& slot, std::uint32_t index, std::uint32_t rank);
  void send(const Slot& slot, std::uint32_t index, std::uint32_t rank);
  /// @param ends  the jobs that produce a layer's last gradients; ranks without one: their last job
  void reduce(std::uint32_t pipeline_rank, std::uint32_t bucket, const LayerEnds& ends);
  /// The weights of a bucket, after the optimizer.
  void gather_bucket(std::uint32_t pipeline_rank, std::uint32_t bucket);
  void emit_flush();
  /// The stage that gives the slot its input, and the stage that takes its output; kNobody: none on another rank.
  static constexpr std::uint32_t kNobody = ~0u;
  std::uint32_t source(const Slot& slot) const;
  std::uint32_t destination(const Slot& slot) const;
  JobLabel label(What what, std::uint32_t slot, std::uint32_t detail, std::uint32_t rank, bool first = false,
                 bool last = false) const;
  const Slot& slot_of(const Fields& f) const;
  const SlotStep& step_of(const Fields& f) const;
  std::uint32_t place(std::uint32_t rank, Dimension d) const { return mesh_.place(rank, d); }

  void on_job_begun(const Job& job) override;
  void on_job_done(const Job& job) override;
  /// "MB[3]", with the virtual stage if a rank has several.
  std::string unit(std::uint32_t stage, std::uint32_t micro_batch) const;
  /// The other coordinates of a rank and the step, where there are several.
  std::string suffix(const Fields& f) const;
  std::string name(std::uint64_t arguments) const override;
  std::string task(std::uint64_t arguments) const override;
  std::string work(std::uint64_t arguments) const override;
  const char* kind(std::uint64_t arguments) const override;
  Recorded recorded(std::uint64_t arguments) const override;

  const TrainingSpec spec_;
  const transformer::ModelShape model_;
  const Schedule schedule_;
  const SlotPlans& plans_;
  const MemoryPlan& memory_;
  const gpu::KernelTimer& kernels_;
  Executor& executor_;
  Mesh mesh_;
  Communicators tp_, ep_, cp_, beside_;
  /// Gradients and weights: of experts, and of all else.
  Communicators dp_, weights_, expert_dp_, expert_weights_;
  Communicators norm_;  ///< ranks with the same place in tensor parallelism
  std::map<Link, Communicators> pipeline_;
  std::vector<std::unique_ptr<Communicator>> ring_;         ///< by rank: to the next context-parallel rank (p2p)
  std::map<Link, std::vector<std::uint32_t>> arrivals_;     ///< slots of the receiver, in the order of the sends
  std::vector<std::vector<std::uint32_t>> place_in_order_;  ///< by pipeline rank and slot: place among these
  std::vector<std::vector<std::uint32_t>> ranks_at_;        ///< by pipeline rank
  std::vector<std::array<std::vector<Communicator*>, transformer::kRankGroups>>
      groups_at_;                                                                ///< by pipeline rank and RankGroup
  std::vector<std::vector<Communicator*>> weights_at_;                           ///< by pipeline rank
  std::vector<std::vector<GradientBucket>> buckets_;                             ///< by pipeline rank
  std::vector<std::map<std::uint32_t, std::vector<std::uint32_t>>> buckets_of_;  ///< by pipeline rank: layer -> buckets
  std::vector<std::vector<std::uint32_t>> last_gradients_;  ///< by pipeline rank and stage: last such slot
  LayerEnds layer_ends_;                                    ///< of the slot that is being emitted
  std::vector<std::vector<JobRef>> reduced_;                ///< by rank and bucket, in this step
  std::vector<std::vector<JobRef>> gathered_;               ///< by rank and bucket, in the step before
  std::vector<RankState> ranks_;
  std::vector<Progress> progress_;  ///< by pipeline rank
  std::vector<RankAccount> accounts_;
  std::uint32_t steps_emitted_ = 0;  ///< also the number of the step that is being emitted
  std::uint32_t flushed_ = 0;        ///< pipeline ranks
  std::int64_t live_ = 0;            ///< jobs
  std::uint64_t slots_done_ = 0;
  bool emitting_ = false;
  Time end_;
  std::vector<JobRef> jobs_;  ///< kept to avoid allocations
};

}  // namespace railyard::workload::training
