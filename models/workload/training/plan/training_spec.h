// The room `plan` says what a step does, before it runs. TrainingSpec and Software are what users choose; SlotPlans has
// the steps of a slot, CoupledStep a product with its collective (tp_overlap.h), planned_step.h the times that zb_auto
// and --explain plan with; weight_order.h and gradient_buckets.h divide weights and gradients.
//
// workload.kind: training, typed and validated: optimizer steps of a model on tp x gtp x cp x ep x dp x pp ranks. Plain data;
// no SystemC.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/data_type.h"
#include "transformer/layer_plan.h"
#include "transformer/linears.h"
#include "transformer/parameters.h"
#include "transformer/training_form.h"
#include "transformer/training_state.h"
#include "workload/parallel/sizes.h"
#include "workload/training/plan/host_offload.h"
#include "workload/training/plan/software.h"
#include "workload/training/plan/tp_overlap.h"
#include "workload/training/schedule/spec.h"

namespace railyard::workload::training {

/// When the norm of all gradients is known.
enum class GradientNorm : std::uint8_t {
  none,
  before,  ///< before the optimizer: every rank waits for the norm
  /// A rank waits for the norm of its own and of earlier stages only; the norm of all stages is checked afterwards (Qi et
  /// al., arXiv 2401.10241, section 4). No step is taken back.
  post_validation
};
constexpr std::array<const char*, 3> kGradientNormNames{"none", "before", "post_validation"};

/// Which layers of a virtual stage are recomputed in full (Megatron-LM, --recompute-method).
enum class RecomputeMethod : std::uint8_t {
  uniform,  ///< all of them, in groups of `recompute_layers` of which only the first input is kept
  block     ///< the first `recompute_layers` of the stage, one by one
};
constexpr std::array<const char*, 2> kRecomputeMethodNames{"uniform", "block"};

struct LayerRange {
  std::uint32_t begin = 0, end = 0;
};

/// Where the gradient of a matrix is computed.
enum class WgradOrder : std::uint8_t { after_dgrad, before_dgrad };
constexpr std::array<const char*, 2> kWgradOrderNames{"after_dgrad", "before_dgrad"};

/// When shards are made narrow for narrow gathers.
enum class ShardCast : std::uint8_t {
  at_optimizer,  ///< once a step; narrow shards stay in memory
  per_gather     ///< before each gather; where a tensor has one scale, ranks agree on its maximum first
};
constexpr std::array<const char*, 2> kShardCastNames{"at_optimizer", "per_gather"};

/// How long gathered matrices stay.
enum class GatheredFor : std::uint8_t {
  micro_batch,  ///< each pass of a micro-batch gathers them again
  step          ///< until the optimizer
};
constexpr std::array<const char*, 2> kGatheredForNames{"micro_batch", "step"};

/// Inputs of column-parallel products that are kept for the gradients of their matrices.
enum class KeptInputs : std::uint8_t {
  whole,
  sharded  ///< divided among tensor-parallel ranks, and gathered again in the chain of matrices
};
constexpr std::array<const char*, 2> kKeptInputsNames{"whole", "sharded"};

/// How ranks sum the gradient of a matrix.
enum class ShardReduce : std::uint8_t {
  ring,             ///< NCCL's reduce-scatter: adds in 16 bits on the way
  all_to_all_fp32,  ///< each rank receives its part from all ranks, and adds in 32 bits
  nvls,             ///< NCCL's reduce-scatter with registered buffers: NVSwitches add
};
constexpr std::array<const char*, 3> kShardReduceNames{"ring", "all_to_all_fp32", "nvls"};

constexpr collective::Operation scatter_operation(ShardReduce reduce) {
  return reduce == ShardReduce::all_to_all_fp32 ? collective::Operation::all_to_all
                                                : collective::Operation::reduce_scatter;
}

/// Generalized tensor parallelism: ranks keep shards of each matrix and gather it just before they use it. How many ranks:
/// TrainingSpec::gtp().
struct WeightShards {
  std::uint32_t prefetch_depth = 1;  ///< matrices that are gathered before the matrix in use
  WgradOrder wgrad_order = WgradOrder::after_dgrad;
  bool narrow = false;  ///< matrices of layers are gathered in the type of narrow products
  ShardCast quantize = ShardCast::at_optimizer;
  GatheredFor keep_gathered = GatheredFor::micro_batch;
  ShardReduce reduce = ShardReduce::ring;
  KeptInputs activations = KeptInputs::whole;
  std::uint32_t experts_size = 1;  ///< adjacent ranks that divide matrices of routed experts; divides gtp()
};

/// In which the optimizer keeps each moment (Megatron-LM, --exp-avg-dtype, --exp-avg-sq-dtype), and its master copy of the
/// weights. Without a master copy it updates weights in their own type (torchtitan with weights in bf16).
enum class MomentFormat : std::uint8_t { fp32, bf16, fp16, fp8 };
constexpr std::array<const char*, 4> kMomentFormatNames{"fp32", "bf16", "fp16", "fp8"};
constexpr Bytes bytes_of(MomentFormat format) {
  return format == MomentFormat::fp32 ? 4 : format == MomentFormat::fp8 ? 1 : 2;
}
enum class MasterFormat : std::uint8_t { fp32, none };
constexpr std::array<const char*, 2> kMasterFormatNames{"fp32", "none"};
constexpr Bytes bytes_of(MasterFormat format) { return format == MasterFormat::fp32 ? 4 : 0; }

struct TrainingSpec {
  std::uint64_t seq_tokens = 0;
  std::uint32_t global_batch = 1;  ///< sequences of a step
  std::uint32_t micro_batch = 1;   ///< sequences of a micro-batch
  MeshSizes sizes{1, 1, 1, 1, 1, 1};
  RankOrder order = kMegatronOrder;
  Copies copies;                         ///< of a folded mesh (parallel/mesh.h)
  std::vector<std::uint32_t> placement;  ///< GPU of each rank that runs
  std::vector<std::uint32_t> numbers;    ///< of each rank that runs, in the whole mesh; empty: they are its ranks
  bool sequence_parallel = false;
  bool whole_experts = false;                   ///< of tensor-parallel ranks (transformer::LayerSplit)
  std::optional<transformer::Routing> routing;  ///< of tokens to experts; none: even
  transformer::ContextExchange cp_comm = transformer::ContextExchange::p2p;
  std::vector<std::uint32_t> stage_layers;  ///< by virtual stage, in the order of the model
  /// By pipeline rank: the group of the machine that has its GPUs. Empty: all have those of the first group. Otherwise each
  /// pipeline rank has one virtual stage, in the order of the model.
  std::vector<std::uint32_t> stage_groups;
  /// With dualpipe, of one half of the pipeline. Its other half counts as data-parallel replicas: pp() is half of the
  /// pipeline's ranks, dp() twice the pipelines.
  ScheduleSpec schedule;
  std::optional<Schedule> table;  ///< a schedule from a file, in place of `schedule`
  transformer::TrainingForm form;
  RecomputeMethod recompute_method = RecomputeMethod::uniform;
  std::uint32_t recompute_layers = 1;  ///< only with full recomputation
  std::uint32_t zero_stage = 1;
  std::uint32_t hsdp = 0;  ///< replicas that divide state among themselves; other groups hold the same. 0: all
  std::uint32_t prefetch_layers = 1;  ///< zero_stage 3: layers whose weights are gathered before the layer that runs
  bool reshard_after_forward = true;  ///< zero_stage 3: weights are gathered again for the backward slot
  WeightShards gtp_shards;            ///< with gtp() of 2 or more
  TpOverlap tp_overlap;
  /// Of streams that their library makes with the highest priority: gathers and scatters of gtp (Megatron-LM,
  /// --high-priority-stream-groups), and tp_overlap (TransformerEngine, pytorch/module/base.py, initialize_ub).
  gpu::CommPriority overlap_priority = gpu::CommPriority::high;
  bool tp_direct = true;  ///< tensor-parallel ranks reach each other over NVLink
  std::uint32_t steps = 1;
  GradientNorm grad_norm = GradientNorm::before;
  Software software;  ///< with the scenario's own keys applied
  /// The head's gradients of weights follow all other slots of their pipeline rank, while other ranks end (Megatron-LM,
  /// --defer-embedding-wgrad-compute).
  bool defer_embedding_wgrad = false;
  bool pp_overlap = false;              ///< sends and receives run beside kernels; only a receive delays the next slot
  std::uint64_t bucket_parameters = 0;  ///< least of a bucket; 0: all gradients of a rank
  DataType gradients = DataType::tf32;  ///< tf32: 32 bits
  MomentFormat moments = MomentFormat::fp32;
  MasterFormat master = MasterFormat::fp32;
  /// Matrices of layers exist in the type of narrow products only, beside the master copy (TransformerEngine,
  /// quantized_model_init(); Megatron-LM, --fp8-param-gather).
  bool narrow_primary = false;
  Offload offload;

  /// @param model  type of weights
  transformer::StatePrecision precision(DataType model) const {
    return {static_cast<Bytes>(railyard::bytes_of(model)), static_cast<Bytes>(railyard::bytes_of(gradients)),
            bytes_of(master), bytes_of(moments)};
  }
  std::uint32_t tp() const { return sizes[static_cast<std::size_t>(Dimension::tp)]; }
  /// Ranks that divide the weights of a tensor-parallel rank. Each has micro-batches of its own.
  std::uint32_t gtp() const { return sizes[static_cast<std::size_t>(Dimension::gtp)]; }
  /// Type in which these ranks gather a matrix: products with embedding and head have the model's type.
  DataType gathered(transformer::Linear linear, DataType model) const {
    return gtp_shards.narrow && transformer::is_of_layer(linear) ? form.narrow->dtype : model;
  }
  /// Recomputation keeps the results of some operators of a layer.
  bool recomputes_operators() const {
    return form.recompute == transformer::Recompute::selective &&
           software.selective_recompute == SelectiveRecompute::operators;
  }
  /// How these ranks divide matrices.
  transformer::Division division() const {
    return {gtp(), gtp_shards.experts_size,
            gtp_shards.narrow ? transformer::shard_rows(form.narrow->dtype) : transformer::kShardRows};
  }
  std::uint32_t cp() const { return sizes[static_cast<std::size_t>(Dimension::cp)]; }
  /// Of the data-parallel ranks.
  std::uint32_t ep() const { return sizes[static_cast<std::size_t>(Dimension::ep)]; }
  /// To which the experts of a layer are dealt: these, or all tensor-parallel ranks of these.
  std::uint32_t expert_ranks() const { return split().expert_ranks(); }
  /// Exchanges with experts run beside kernels, in a stream of their own.
  bool exchanges_beside() const { return schedule.overlap_pairs || software.routed.shared_beside; }
  std::vector<Dimension> expert_dimensions() const {
    return whole_experts ? std::vector<Dimension>{Dimension::tp, Dimension::ep} : std::vector<Dimension>{Dimension::ep};
  }
  /// Replicas of all weights but those of experts, as Megatron-LM counts: each of the ep ranks has a replica.
  std::uint32_t dp() const { return sizes[static_cast<std::size_t>(Dimension::dp)] * ep(); }
  /// Ranks that hold the same parameters: of an expert, and of all else (with gtp: the same shards).
  std::uint32_t expert_replicas() const { return replicas() / ep() * (gtp() / gtp_shards.experts_size); }
  std::uint32_t replicas() const { return dp() * cp(); }
  /// Ranks that divide gradients, optimizer state or weights, by zero_stage.
  std::uint32_t state_shards() const { return hsdp > 0 ? hsdp : replicas(); }
  std::uint32_t pp() const { return sizes[static_cast<std::size_t>(Dimension::pp)]; }
  std::uint32_t group_of(std::uint32_t pipeline_rank) const {
    return stage_groups.empty() ? 0 : stage_groups[pipeline_rank];
  }
  /// Ranks between neighbours in a dimension.
  std::uint32_t stride(Dimension dimension) const {
    std::uint32_t stride = 1;
    for (const Dimension inner : order) {
      if (inner == dimension) break;
      stride *= sizes[static_cast<std::size_t>(inner)];
    }
    return stride;
  }
  /// Halves of a pipeline that have the same stages and slots.
  std::uint32_t halves() const { return !table && schedule.kind == ScheduleKind::dualpipe ? 2 : 1; }
  std::uint32_t ranks() const {
    std::uint32_t product = 1;
    for (const std::uint32_t size : sizes) product *= size;
    return product;
  }
  /// Sizes of the mesh of ranks that run.
  MeshSizes running_sizes() const {
    MeshSizes running = sizes;
    std::uint32_t& dp = running[static_cast<std::size_t>(Dimension::dp)];
    if (!copies.empty()) dp = dp / static_cast<std::uint32_t>(copies.size()) * workload::running(copies);
    return running;
  }
  std::uint32_t virtual_stages() const { return static_cast<std::uint32_t>(stage_layers.size()) / pp(); }
  std::uint32_t micro_batches() const { return global_batch / (micro_batch * dp() * gtp()); }
  std::uint64_t micro_batch_tokens() const { return micro_batch * seq_tokens; }
  /// Of a micro-batch, on a context-parallel rank.
  std::uint64_t rank_tokens() const { return micro_batch_tokens() / cp(); }
  transformer::LayerSplit split() const {
    transformer::LayerSplit split{tp(), sequence_parallel, ep(), cp(), cp_comm};
    split.gather_for(form);
    split.whole_experts = whole_experts;
    split.copies = software.routed.copies();
    return split;
  }
  /// Copies of tokens that reach the experts of an expert-parallel rank in a layer. None: routing is even, or the layer
  /// has no experts.
  std::optional<transformer::RankLoad> load(const transformer::ModelShape& model, std::uint32_t layer,
                                            std::uint32_t place) const;
  /// The layers that run again together with this layer of the stage; none: the layer does not run again.
  LayerRange recomputed_with(const transformer::Stage& stage, std::uint32_t layer) const;
};

/// Why activations cannot be offloaded; "": they can be.
/// @param divides  some backward slots are two, of inputs and of weights
std::string offload_needs(const TrainingSpec& spec, bool divides);

}  // namespace railyard::workload::training
