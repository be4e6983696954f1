// The room `transformer` knows the structure of a model, without SystemC. ModelShape and its LayerShapes come from
// config.json; LayerStep lists the kernels and collectives of a layer in order, for a rank (context_steps.h,
// expert_steps.h, narrow_steps.h); end_plan.h has embedding, head and loss. LayerTimer gives times, from formulas or a
// LayerProfile. parameters.h, memory.h, training_memory.h and training_flops.h count. Workloads turn steps into jobs;
// `--explain` prints them.
//
// The only definition of a decoder layer on tensor-parallel ranks: the order of kernels on a rank, and the collectives
// where ranks meet (Shoeybi et al., arXiv 1909.08053; Korthikanti et al., arXiv 2205.05198). Every rank has the same
// steps.
//
//   forward            norm, attention, all-reduce; norm, MLP, all-reduce
//   backward           MLP, all-reduce, norm; attention, all-reduce, norm
//   sequence parallel  norms on tokens / tp; each all-reduce becomes a reduce-scatter before the norm and an all-gather
//                      after it; the backward pass has the reverse order
//   dropout            after each all-reduce or reduce-scatter; backward before each part; on the tokens of the norms
//   dgrad              backward without the products for gradients of weights
//   wgrad              only these products: MLP; attention
//   expert parallel    expert_steps.h; with attention replicas: replica_steps.h
//   context parallel   context_steps.h
//
// With sequence parallelism, a rank that keeps only its own tokens of an input gathers this input again for the product
// of wgrad (TrainingForm::keep_gathered). As in Megatron-LM, this gather runs beside the product before: in a backward
// pass beside the dgrad product of the same projection. TrainingForm::input_reduce puts the all-reduce or
// reduce-scatter of a backward pass after the wgrad product, beside it or before it.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "collective/spec.h"
#include "transformer/layer_kernels.h"
#include "transformer/routing.h"

namespace railyard::transformer {

/// How context-parallel ranks exchange keys and values.
enum class ContextExchange : std::uint8_t { p2p, all_gather, a2a };
constexpr std::array<const char*, 3> kContextExchangeNames{"p2p", "all_gather", "a2a"};

/// How a layer is divided among ranks.
struct LayerSplit {
  std::uint32_t tp = 1;            ///< must divide the query heads
  bool sequence_parallel = false;  ///< norms run on tokens / tp; tp must divide the tokens
  std::uint32_t ep = 1;            ///< ranks with other tokens and other experts; must divide the experts
  std::uint32_t cp = 1;            ///< ranks with other tokens of the same sequences
  ContextExchange exchange = ContextExchange::p2p;
  /// Type in which sequence parallelism gathers inputs of narrow products and gradients of their results; none: the
  /// model's.
  std::optional<DataType> gathered = std::nullopt;
  std::optional<RankLoad> load = std::nullopt;    ///< of this rank's experts; none: even
  std::uint32_t replicas = 1;                     ///< of attention, which share the experts (replica_steps.h)
  ExpertRanks experts = {};                       ///< of the replicas
  MicroBatchTurns turns = MicroBatchTurns::none;  ///< of the replicas, in a pass of two micro-batches
  /// Tensor-parallel ranks do not divide experts; whole ones are dealt to all tp x ep ranks (Megatron-LM,
  /// --expert-tensor-parallel-size 1). With sequence parallelism and even routing.
  bool whole_experts = false;
  double copies = 1;  ///< of tokens, that reach experts, of each that even routing makes (RoutedForm::copies())

  /// Ranks to which the experts of a layer are dealt.
  std::uint32_t expert_ranks() const { return whole_experts ? tp * ep : ep; }
  /// Copies of a rank's own tokens that reach experts. @param all  that it makes
  std::uint64_t sent(std::uint64_t all) const { return part_of_copies(all, load ? load->kept : copies); }
  /// Tokens of an attention replica that its tensor-parallel ranks route, each as many; and those of all replicas.
  std::uint64_t replica_tokens(std::uint64_t tokens) const { return tp * ceil_div(tokens, tp); }
  std::uint64_t group_tokens(std::uint64_t tokens) const { return replicas * replica_tokens(tokens); }
  /// Of a layer with experts that replicas share, the ranks of a replica add the results of attention by reduce-scatter.
  bool scatters_tokens() const { return replicas > 1 && tp > 1 && experts.sum == ReplicaSum::reduce_scatter; }
  void gather_for(const TrainingForm& form) {
    if (form.narrow && form.narrow->gathers_narrow()) gathered = form.narrow->dtype;
  }
};

/// The ranks of a collective: those that differ in one dimension of parallelism only.
enum class RankGroup : std::uint8_t { tp, ep, cp };
constexpr std::size_t kRankGroups = 3;

/// When the host waits for the end of a step.
enum class HostWait : std::uint8_t {
  none,
  after_next,  ///< after it has launched the next step
  at_once
};

/// Kernels of one rank, or a collective of a group of ranks.
struct LayerStep {
  LayerPart part = LayerPart::attention;
  Segment kernels;  ///< empty: the step is a collective
  collective::Operation operation = collective::Operation::all_reduce;
  Bytes bytes = 0;           ///< collective: the whole vector, as nccl-tests counts
  bool beside_next = false;  ///< collective: runs beside the next step; the step after that one waits for both
  RankGroup group = RankGroup::tp;
  collective::Shares shares = {};  ///< of an all-to-all
  HostWait host_waits = HostWait::none;
  collective::TokenExchange tokens = {};  ///< of an all-to-all

  bool is_collective() const { return kernels.kernels.empty(); }
};

/// Consecutive kernels of one part are one step, except that kernels which run beside a
/// collective are a step of their own. A group of one rank has no collectives.
/// @pre the timer has the same model and tp
std::vector<LayerStep> plan_layer(const ModelShape& model, LayerTimer& timer, const LayerPass& pass,
                                  const LayerSplit& split, Direction direction = Direction::forward);

/// The forward steps that a backward pass (or dgrad) runs again before its own, by the form of the timer.
/// @param stops_early  full recomputation of a layer without experts ends with the input of its last product, because no
/// backward kernel needs the result (PyTorch 2.1, torch.utils.checkpoint: set_checkpoint_early_stop)
std::vector<LayerStep> plan_recompute(const ModelShape& model, LayerTimer& timer, const LayerPass& pass,
                                      const LayerSplit& split, bool stops_early = false);

/// The collectives of plan_layer(), without kernel times. Forward, backward and dgrad have the same collectives in different order.
std::vector<LayerStep> layer_collectives(const ModelShape& model, std::uint64_t tokens, const LayerSplit& split);

}  // namespace railyard::transformer
