// A software stack for training, as data: which kernels it runs, how the host launches them, what it overlaps, how it
// reduces gradients, and the memory that it keeps for itself. The values come from platforms/datasheets/software; a
// scenario's own keys replace them.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "collective/engine.h"
#include "gpu/stream.h"
#include "transformer/training_form.h"
#include "workload/training/plan/tp_overlap.h"

namespace railyard::workload::training {

/// eager: the host launches each kernel; graph: the GPU runs a captured graph.
enum class Launch : std::uint8_t { eager, graph };
inline constexpr std::array<const char*, 2> kLaunchNames{"eager", "graph"};

/// Schedules whose sends and receives between pipeline stages run beside kernels.
enum class PipelineOverlap : std::uint8_t { none, interleaved, all };
inline constexpr std::array<const char*, 3> kPipelineOverlapNames{"none", "interleaved", "all"};

/// What pipeline ranks send of the activations of a tensor-parallel group. Sequence-parallel ranks send their own
/// tokens.
enum class PipelineSend : std::uint8_t {
  full,  ///< every rank sends all of them to its counterpart
  shard  ///< every rank sends 1/tp of them; the receivers gather
};
inline constexpr std::array<const char*, 2> kPipelineSendNames{"full", "shard"};

/// Number format in which gradients are accumulated and reduced.
enum class GradientFormat : std::uint8_t { as_parameters, fp32 };
inline constexpr std::array<const char*, 2> kGradientFormatNames{"as_parameters", "fp32"};

/// Kernels of the loss, and the bytes of a logit that are in memory.
enum class LossKernels : std::uint8_t {
  in_place,   ///< on one copy of the logits in fp32 (Megatron-LM, _VocabParallelCrossEntropy)
  operators,  ///< of PyTorch, each with a result of its own
  fused       ///< on the logits in 16 bits, both ways
};
inline constexpr std::array<const char*, 3> kLossKernelsNames{"in_place", "operators", "fused"};

struct LogitBytes {
  Bytes kept = 0;    ///< from the forward to the backward slot
  Bytes beside = 0;  ///< most that the backward kernels of the loss hold besides
};
/// With logits in 16 bits, and gradients of logits in 16 bits as the result:
///
///   in_place   fp32 softmax; its gradient takes its place, and is cast
///   operators  fp32 log-softmax; gradients of the negative log-likelihood and of the log-softmax
///              (torch.nn.functional.cross_entropy). Where ranks divide the vocabulary: zeros, exponentials and their sum
///              (torch/distributed/tensor/parallel/loss.py, _nll_loss_and_log_softmax_backward)
///   fused      the logits; their gradient
constexpr LogitBytes logit_bytes(LossKernels loss, bool divides_vocabulary) {
  switch (loss) {
    case LossKernels::in_place: return {4, 2};
    case LossKernels::operators: return {4, divides_vocabulary ? Bytes{12} : Bytes{8}};
    case LossKernels::fused: return {2, 2};
  }
  return {};
}

/// What `recompute: selective` computes again.
enum class SelectiveRecompute : std::uint8_t {
  attention,  ///< the core of attention
  operators   ///< all but attention and every second matrix product (torchtitan, _apply_op_sac)
};
inline constexpr std::array<const char*, 2> kSelectiveRecomputeNames{"attention", "operators"};

struct Software {
  std::string name;
  transformer::AttentionForm attention = transformer::AttentionForm::flash;
  std::optional<std::uint32_t>
      flash_attention;              ///< version of FlashAttention; none: the kernels of the GPU's datasheet
  bool cudnn_on_blackwell = false;  ///< attention on Blackwell is cuDNN's: the kernels of the GPU's datasheet
  transformer::FusedKernels fused;
  transformer::RoutedForm routed;
  bool sequence_first = true;  ///< order of activations: [sequence, batch, hidden]; otherwise [batch, sequence, hidden]
  bool dropout = false;
  SelectiveRecompute selective_recompute = SelectiveRecompute::attention;
  LossKernels loss = LossKernels::in_place;
  std::uint32_t loss_chunks = 1;               ///< logits of this part of the tokens are in memory at a time
  bool recompute_stops_early = false;          ///< full recomputation of a layer leaves out its last product
  OverlapWord tp_overlap = OverlapWord::none;  ///< with sequence parallelism
  bool reduce_beside_wgrad = false;            ///< tensor-parallel sums of input gradients run beside wgrad products
  Launch launch = Launch::eager;
  double host_us = 0;                              ///< of each eager launch
  double expert_call_us = 0;                       ///< of each call in a layer with experts, beside its launches
  std::vector<collective::EagerCall> expert_call;  ///< the same by CPU; the first one that fits applies
  bool slots_synchronize = false;                  ///< the host waits for the GPU before each slot
  double slot_host_us = 0;                         ///< of each forward slot besides launches
  PipelineOverlap pp_overlap = PipelineOverlap::none;
  PipelineSend pp_send = PipelineSend::full;
  bool dp_overlap = false;
  bool param_gather_overlap = false;    ///< ZeRO stages 1 and 2: updated weights arrive beside the next step's slots
  std::uint64_t bucket_parameters = 0;  ///< ZeRO stages 0 and 1; 0: all gradients of a rank in one bucket
  std::uint64_t bucket_parameters_per_rank = 0;  ///< a bucket has at least this number for each data-parallel rank
  GradientFormat gradients = GradientFormat::fp32;
  transformer::GradientSum gradient_sum = transformer::GradientSum::product;  ///< zero_stage 0 and 1, without gtp
  std::vector<std::uint32_t> zero_stages{0};
  bool nvls = true;                                             ///< NCCL may use NVLink SHARP
  gpu::CommPriority comm_priority = gpu::CommPriority::normal;  ///< of the streams of NCCL's collectives
  std::optional<std::uint32_t> nccl_ctas;  ///< limit for NCCL's thread blocks of a collective; none: NCCL's own choice
  double reserved_bytes = 0;               ///< CUDA context, NCCL buffers, workspaces

  /// Parameters of a bucket among `ranks` data-parallel ranks; 0: all in one bucket.
  std::uint64_t bucket(std::uint32_t ranks) const {
    return bucket_parameters == 0 ? 0 : std::max(bucket_parameters, bucket_parameters_per_rank * ranks);
  }
  bool has_zero_stage(std::uint32_t stage) const {
    return std::find(zero_stages.begin(), zero_stages.end(), stage) != zero_stages.end();
  }
};

}  // namespace railyard::workload::training
