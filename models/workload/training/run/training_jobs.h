// The jobs of a training step: what each of them does, its name, kind and row in outputs. For slot s of pipeline rank p
// (F, B or W of micro-batch m) on tensor-parallel rank t:
//
//   F_PP[p]_TP[t]_MB[m]                        a slot: all of it is a row
//   F_PP[p]_TP[t]_MB[m]_Layer[l]_Attn          kernels
//   TP_AR_PP[p]_MB[m]_F_Layer[l]_Attn          collectives of its layers; EP_..., CP_...
//   TP_AG_PP[p]_MB[m]_F_Layer[l]_Qkv           the same, or a shard, of a product that it overlaps (tp_overlap)
//   PP_Act_FromP[p]_ToP[q]_TP[t]_MB[m]         activations to the next stage; PP_Grad_...: gradients back
//   Weights_AG_PP[p]_TP[t]_MB[m]_F_Layer[l]    weights of a layer (zero_stage 3); with _Experts: of its experts (ep)
//   GTP_AG_Layer[l]_Qkv_F_PP[p]_TP[t]_MB[m]    a matrix (gtp), for a product of F or B; R: for a recomputed layer
//   GTP_AG_Layer[l]_QkvInput_B_PP[p]_TP[t]...  the saved input from which its gradient is computed
//   GTP_Cast_..., GTP_AR_...                   its shard made narrow, and the maximum of all shards before
//   GTP_RS_Layer[l]_Qkv_B_PP[p]_TP[t]_MB[m]    the gradient of a matrix
//   DP_RS_PP[p]_TP[t]_Bucket[b]                gradients; DP_AG_...: weights
//   TP_AR_PP[p]_Norms, PP_AR_TP[t]_Embedding   gradients that tensor-parallel ranks, or first and last stage, add
//   GradNorm_PP[p]_TP[t], Adam_PP[p]_TP[t]     the end of the step
//   Store_PP[p]_TP[t]_MB[m]_Layer[l], Load_... activations of a layer to and from host memory (offload)
//   GradStore_PP[p]_TP[t]_Bucket[b], HostAdam_..., WeightLoad_...   the optimizer on the CPU (offload)
//
// Suffixes _V[v], _GTP[g], _CP[c], _EP[e], _DP[d], _Step[i] where there are several.
#pragma once

#include <string>

#include "workload/parallel/mesh.h"
#include "workload/traffic.h"
#include "workload/training/plan/slot_plan.h"
#include "workload/training/schedule/schedule.h"

namespace railyard::workload::training {

class TrainingJobs : public JobNamer {
 public:
  // Most slots of a pipeline rank, and most steps of a slot: a job's label has so many bits for their numbers.
  static constexpr std::size_t kMostSlots = 1u << 17, kMostSlotSteps = (1u << 13) - 1;
  /// Detail of a layer's label: the embedding or the head.
  static constexpr std::uint32_t kEndsDetail = kMostSlotSteps;

  enum What : std::uint8_t {
    kKernels,     ///< of a step of a slot
    kCollective,  ///< of a step of a slot
    kBeside,      ///< the same, beside kernels
    kShard,       ///< of a coupled product, from another rank; its label has the rank to which it goes
    kMainLoop,    ///< of the tiles of a fused product, until their results or after their operands: a delay
    kSend,        ///< of activations or their gradients
    kReceive,
    kGradients,        ///< reduction of a bucket
    kShardGradients,   ///< of a shard of a bucket, over the groups that divide state (hsdp)
    kNorm,             ///< kernel
    kNormReduce,       ///< over the tensor-parallel ranks, then over all others, so that each keeps to its own links
    kSharedGradients,  ///< all-reduce over tensor-parallel ranks (transformer/shared_gradients.h)
    kTiedGradients,    ///< all-reduce between first and last stage
    kNormPass,         ///< detail 0: the norm of all stages up to this one is sent to the next stage; 1: received there
    kOptimizer,
    kMaxima,         ///< of all matrices whose shards a rank makes narrow after the optimizer (gtp)
    kNarrowShards,   ///< kernel
    kGather,         ///< of the weights of a bucket
    kLayerGather,    ///< of the weights of a layer
    kExpertGather,   ///< of the weights of its experts, over other ranks (ep)
    kNarrowShard,    ///< kernel for the gather of a narrow matrix (gtp)
    kShardMaximum,   ///< of a matrix, over its shards
    kMatrixGather,   ///< of the matrix that a step of a slot uses (gtp)
    kMatrixScatter,  ///< of the gradient that a step of a slot computes (gtp)
    kAddGradient,    ///< the kernel that adds its result
    kInputGather,    ///< of the saved input from which a step of a slot computes a gradient (gtp)
    kHost,
    kHostWait,     ///< the host has waited for the norm, or for a slot's exchange with other stages
    kActivations,  ///< copy of what a layer keeps, to the host; with `first`: back. Detail: the layer
    kStateCopy,    ///< copy of the gradients of a bucket to the host; with `first`: of its weights, back
    kHostUpdate,   ///< the CPU runs the optimizer for a bucket
    kSlot          ///< all of a slot on a rank: a row, not a job
  };
  /// Contents of a label. `detail` is the number of the slot's step, of a bucket, or of a layer.
  struct Fields {
    std::uint64_t what : 5, slot : 17, detail : 13, rank : 17, first : 1, last : 1, step : 10;
  };

  TrainingJobs(const TrainingSpec& spec, const Schedule& schedule, const SlotPlans& plans, const Mesh& mesh)
      : spec_(spec), schedule_(schedule), plans_(plans), mesh_(mesh) {}

  /// Number of the optimizer step to which later labels belong.
  std::uint32_t step() const { return step_; }
  void next_step() { ++step_; }

  /// @param slot   position in the order of the rank's slots
  /// @param first, last  job of the slot on this rank
  JobLabel label(What what, std::uint32_t slot, std::uint32_t detail, std::uint32_t rank, bool first = false,
                 bool last = false) const {
    return JobLabel::of(*this, Fields{what, slot, detail, rank, first, last, step_});
  }
  /// The row of a slot, from the label of its last job.
  JobLabel slot_row(Fields of_job, std::uint32_t rank) const {
    of_job.what = kSlot;
    of_job.rank = rank;
    return JobLabel::of(*this, of_job);
  }
  static Fields fields_of(const Job& job) { return job.label().as<Fields>(); }
  const Slot& slot_of(const Fields& f) const { return schedule_.slots[coordinate(f.rank, Dimension::pp)][f.slot]; }
  const SlotStep& step_of(const Fields& f) const {
    return plans_.plan(slot_of(f).kind, slot_of(f).stage).steps[f.detail];
  }
  static TrafficClass class_of(transformer::RankGroup group);

 private:
  std::uint32_t coordinate(std::uint32_t rank, Dimension d) const { return mesh_.coordinate(rank, d); }
  /// Kernels, collectives and shards of a step of a slot.
  static bool is_of_layer(const Fields& f);
  /// "MB[3]", with the virtual stage if a rank has several.
  std::string unit(std::uint32_t stage, std::uint32_t micro_batch) const;
  /// The other coordinates of a rank and the step, where there are several.
  std::string suffix(const Fields& f) const;
  std::string name(std::uint64_t arguments) const override;
  std::string task(std::uint64_t arguments) const override;
  std::string work(std::uint64_t arguments) const override;
  const char* kind(std::uint64_t arguments) const override;
  Recorded recorded(std::uint64_t arguments) const override;
  /// Kernels of the ranks of a tensor-parallel group, from those of its first rank.
  std::uint64_t of_member(std::uint64_t arguments, std::uint32_t member) const override;

  const TrainingSpec& spec_;
  const Schedule& schedule_;
  const SlotPlans& plans_;
  const Mesh& mesh_;
  std::uint32_t step_ = 0;
};

}  // namespace railyard::workload::training
