// What a training framework chooses about the kernels and the memory of a layer. How the layer is divided among ranks
// is a LayerSplit.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "transformer/adapters.h"
#include "transformer/narrow_products.h"

namespace railyard::transformer {

/// What of a layer is not kept for the backward pass and runs again there (Korthikanti et al., arXiv 2205.05198,
/// section 5).
enum class Recompute : std::uint8_t {
  none,
  selective,  ///< modules of it, by default core_attn
  full        ///< the whole layer, with its collectives; only its input is kept
};
constexpr std::array<const char*, 3> kRecomputeNames{"none", "selective", "full"};
constexpr const char* name_of(Recompute recompute) { return kRecomputeNames[static_cast<std::size_t>(recompute)]; }

/// Parts of a layer that selective recomputation computes again (Megatron-LM, --recompute-modules).
enum class RecomputeModule : std::uint8_t {
  core_attn,  ///< between the projections of attention: scores, softmax and values, or the fused kernel of all three
  layernorm,  ///< the norms before attention and MLP; their inputs are kept
  mlp,        ///< the MLP of a layer without experts, with its collectives
  moe,        ///< routers, exchanges and experts
  moe_act     ///< the activation of routed experts
};
constexpr std::array<const char*, 5> kRecomputeModuleNames{"core_attn", "layernorm", "mlp", "moe", "moe_act"};

/// How scores, softmax and values of attention are computed.
enum class AttentionForm : std::uint8_t {
  flash,   ///< one kernel; scores stay on the SMs (Dao et al., arXiv 2205.14135)
  unfused  ///< a product for the scores of all keys, softmax with scale and mask, dropout, a product with the values
};
constexpr std::array<const char*, 2> kAttentionFormNames{"flash", "unfused"};
constexpr const char* name_of(AttentionForm form) { return kAttentionFormNames[static_cast<std::size_t>(form)]; }

/// Whether scale, mask and softmax of unfused attention are one kernel, or operators of PyTorch (Megatron-LM v2.5,
/// megatron/model/fused_softmax.py: custom_kernel_constraint).
/// @param products  a rank's query heads of all sequences of a pass
constexpr bool softmax_is_fused(std::uint64_t products, std::uint64_t queries, std::uint64_t keys) {
  return keys > 16 && keys <= 2048 && queries % 4 == 0 && products % 4 == 0;
}

/// Where a whole backward pass sums the gradient of the input of a part's first projection over the ranks.
enum class InputReduce : std::uint8_t {
  after_wgrad,
  beside_wgrad,  ///< while the wgrad product runs (Megatron-LM, LinearWithGradAccumulationAndAsyncCommunication)
  after_dgrad    ///< before the wgrad product
};

/// What adds the gradient of a matrix in a micro-batch to those of earlier ones.
enum class GradientSum : std::uint8_t {
  product,      ///< the wgrad product itself: cuBLAS adds its result to C (apex, fused_weight_gradient_mlp_cuda)
  kernel,       ///< a kernel after the product
  after_reduce  ///< nothing on this rank: a reduce-scatter comes first, and shards are added
};
constexpr std::array<const char*, 3> kGradientSumNames{"product", "kernel", "after_reduce"};

/// What is one kernel, where eager PyTorch has one for each of its operators (layer_kernels_operators.cpp).
struct FusedKernels {
  bool activation = true;  ///< activation of a gated MLP and its product
  bool dropout = true;     ///< bias, dropout and sum with the residual stream
  bool residual = true;  ///< sum with the residual stream and the norm after it; backward sum of gradients and the norm
  bool norm = true;      ///< RMSNorm
  bool rotary = true;    ///< rotary embedding of queries and keys
  /// Products with the matrices of queries, keys and values, and of gate and up. Otherwise each matrix has products of
  /// its own, and backward a kernel sums the gradients of their common input.
  bool projections = true;
};

/// How a rank multiplies by the matrices of its routed experts.
enum class ExpertProducts : std::uint8_t {
  grouped,    ///< one kernel for all experts
  streams,    ///< a product for each expert, several at a time (Transformer Engine, GroupedLinear: four streams)
  sequential  ///< a product for each expert, one after the other (Megatron Core, SequentialMLP)
};
constexpr std::array<const char*, 3> kExpertProductsNames{"grouped", "streams", "sequential"};

/// How tokens reach the ranks with their experts, and results come back.
enum class TokenDispatch : std::uint8_t {
  all_to_all,  ///< a copy of a token for each of its experts, in NCCL's all-to-alls (Megatron Core, MoEAlltoAllTokenDispatcher)
  deepep  ///< once for each rank with some of its experts (MoEFlexTokenDispatcher with DeepEP; collective/deepep.h)
};
constexpr std::array<const char*, 2> kTokenDispatchNames{"all_to_all", "deepep"};

/// What a framework launches around routed experts (layer_kernels_routing.cpp).
struct RoutedForm {
  TokenDispatch dispatch = TokenDispatch::all_to_all;
  ExpertProducts products = ExpertProducts::grouped;
  bool router_fused = true;  ///< scores, choice and loss of the router are a kernel each; otherwise PyTorch's operators
  bool permute_fused = true;   ///< rows of tokens are copied to and from the order of experts by kernels made for it
  bool sends_weights = true;   ///< a weight of each copy travels with it, in an all-to-all of its own
  bool shared_beside = false;  ///< shared experts run beside the exchanges (Megatron-LM, --moe-shared-expert-overlap)
  /// Each rank sends an expert at most this times its even share of the rank's copies, and drops others (Megatron-LM,
  /// --moe-expert-capacity-factor); none: all are sent.
  std::optional<double> capacity;
  bool pads = false;         ///< each expert gets as many (--moe-pad-expert-input-to-capacity)
  bool synchronizes = true;  ///< the host waits in each forward pass for the numbers of copies of all experts

  /// Copies that reach experts, of each that even routing makes.
  double copies() const { return !capacity ? 1 : pads ? *capacity : std::min(1.0, *capacity); }
};

struct TrainingForm {
  AttentionForm attention = AttentionForm::flash;
  /// Of embeddings, softmax, and the outputs of attention and MLP. The kernel after attention or MLP also adds bias and
  /// residual (Megatron-LM, bias_dropout_add_fused_train).
  bool dropout = false;
  Recompute recompute = Recompute::none;
  std::array<bool, kRecomputeModuleNames.size()> modules{true};  ///< of selective recomputation, by RecomputeModule
  /// Sequence parallelism: the gathered input of a column-parallel projection is kept for its wgrad product. Otherwise
  /// the rank keeps its own tokens and gathers the input again (Korthikanti et al., arXiv 2205.05198, section 4.2.2).
  bool keep_gathered = true;
  /// Inputs of column-parallel projections, which are alike on all tensor-parallel ranks, are kept divided among them.
  bool divide_inputs = false;
  std::array<InputReduce, 4> input_reduce{};  ///< by LayerPart
  FusedKernels fused;
  std::optional<RoutedForm> routed;  ///< none: the kernels of an inference engine, and nothing around them
  /// Activations are [sequence, batch, hidden], so sequence-parallel ranks have rows that follow each other. Otherwise
  /// ([batch, sequence, hidden]) a kernel copies all tokens after a gather and before a reduce-scatter. A product that
  /// overlaps with it needs no copy, but the gradient of its weight may (workload/training/plan/coupled_steps.h).
  bool sequence_first = true;
  GradientSum gradient_sum = GradientSum::after_reduce;
  DataType gradients = DataType::tf32;   ///< in which gradients are added; tf32: 32 bits
  std::optional<NarrowProducts> narrow;  ///< none: products in the model's type
  std::optional<Adapters> adapters;      ///< none: all weights are trained

  bool recomputes(RecomputeModule module) const {
    return recompute == Recompute::selective && modules[static_cast<std::size_t>(module)];
  }
};

}  // namespace railyard::transformer
