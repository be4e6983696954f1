// The kernels of one decoder layer on one tensor-parallel rank, divided where the rank must meet its peers: the
// attention segment and the MLP segment each end in an all-reduce of hidden_bytes(tokens). Prefill and decode differ
// only in attention.
//
//   attention: rmsnorm (with the residual of the previous segment), qkv [h x (a + 2g)d / tp], qk_norm if the model has
//   it,
//              rotary (with the KV write; only the write if positions are learned), attention, o_proj [ad / tp x h];
//              latent attention: layer_kernels_latent.cpp
//   MLP:       rmsnorm, gate_up [h x 2f / tp], activation, down [f / tp x h]
//   experts:   rmsnorm, router [h x E] on every rank, top_k, permute, grouped gate_up, activation, grouped down,
//              combine; every expert is sharded by tp and gets an even share of the routed rows; shared experts follow
//              as an MLP
//
// In models whose attention and MLP share a norm, the MLP has no norm. In models with a norm after each part, this norm
// runs before the next segment, after the all-reduce. Layers may differ: `kind` is an index of the model's kinds of
// layers.
//
// Backward, each projection of m rows becomes two products with the same FLOPs: the gradient of its input (dgrad) and
// of its weights (wgrad; GradientSum says what adds it to those of earlier micro-batches). Attention recomputes its
// scores. Elementwise kernels read the gradient of the output and their own inputs, and write the gradients of these
// inputs. Gradients of norm weights are too small to count.
//
//   MLP:       down dgrad, wgrad, activation, gate_up dgrad, wgrad
//   experts:   combine, the same grouped, permute, router dgrad, wgrad
//   attention: o_proj dgrad, wgrad, attention, rotary, qkv dgrad, wgrad
//
// Forward, biases are added by the product or by the kernel after it. Backward, the gradient of a bias is a kernel that
// reads the gradient of the product (Megatron-LM, LinearWithGradAccumulationAndAsyncCommunication). Training without
// rotary embedding has no kernel between qkv and attention. TrainingForm adds dropout and unfused attention; the
// dropout inside a flash kernel takes no time of its own.
//
// Training may run the projections with narrow operands: narrow_products.h says which kernels narrow them.
//
// Models with a narrow dtype (fp8, fp4) are assumed to have static scales, so quantising activations needs no extra
// kernel. If the config gives weights a format with dynamic scales, a kernel before each of their products finds the
// scales of its rows. Weights in a type that the tensor cores lack (fp8 on A100) are widened to the model's dtype in
// the product, as in vLLM's Marlin kernels.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/units.h"
#include "gpu/kernels/kernel_spec.h"
#include "gpu/kernels/kernel_timer.h"
#include "transformer/layer_profile.h"
#include "transformer/linears.h"
#include "transformer/model_shape.h"
#include "transformer/routing.h"
#include "transformer/segment.h"
#include "transformer/training_form.h"

namespace railyard::transformer {

/// The sequences of a pass through one layer. A serving engine mixes both kinds in one batch.
struct LayerPass {
  std::vector<gpu::AttentionSequence> prefills;  ///< chunks of prompts, or whole sequences of a training step
  std::vector<gpu::AttentionSequence> decodes;   ///< one token each, or a few, over a paged cache
  std::uint32_t kind = 0;                        ///< kind of layer
  /// Tokens of the captured CUDA graph that runs the pass: kernels other than attention, and collectives, run on them
  /// (vLLM pads a batch to the next captured size). 0: not padded.
  std::uint64_t padded_tokens = 0;
  /// Tokens of all attention replicas that share experts with this one, with padding; 0: there are no others.
  std::uint64_t group_tokens = 0;
  bool causal = true;            ///< prefills: a query sees no later keys; otherwise all kv_start + tokens keys
  std::uint32_t head_ranks = 1;  ///< context-parallel ranks that share the heads of a tensor-parallel rank

  std::uint64_t tokens() const;
  /// Tokens of all kernels other than attention.
  std::uint64_t dense_tokens() const { return padded_tokens > 0 ? padded_tokens : tokens(); }
};

/// Whether a GPU multiplies in the type of the weights. Otherwise the kernel widens them to the model's dtype.
bool multiplies_narrow(const WeightFormat& format, const gpu::GpuDatasheet& gpu);

/// A pass through a layer. The backward pass is dgrad and wgrad together; zero-bubble schedules run them at different
/// times (Qi et al., arXiv 2401.10241).
enum class Direction : std::uint8_t {
  forward,
  backward,
  dgrad,  ///< gradients of inputs, which the layer before waits for: all of backward but the products of wgrad
  wgrad   ///< gradients of weights: one product for each projection
};
constexpr bool has_dgrad(Direction direction) {
  return direction == Direction::backward || direction == Direction::dgrad;
}
constexpr bool has_wgrad(Direction direction) {
  return direction == Direction::backward || direction == Direction::wgrad;
}

/// Backward kernels of a part, in order. The gathered input of the part's first projection is an operand of
/// `input_wgrad` only. In a mixture of experts, `body` has all kernels: its routed copies are kept.
struct PartBackward {
  Segment body, input_dgrad, input_wgrad;
  Segment joined() const;
};

/// @pre tp divides the query heads; the timer, which may be shared, outlives this object
class LayerTimer {
 public:
  /// @param profile  measured times that replace the formulas in forward kernels; may be null
  LayerTimer(const ModelShape& model, std::uint32_t tp, gpu::KernelTimer& timer,
             std::shared_ptr<const LayerProfile> profile = nullptr);

  /// Whose kernels run; by default FlashAttention and cuBLAS. Of the products, the first for this GPU apply.
  void set_libraries(gpu::AttentionLibrary attention, const std::vector<gpu::BlockScaledProducts>& products);
  /// Inference: experts are dealt whole to tensor-parallel ranks.
  void set_expert_ranks(const ExpertRanks& ranks);
  /// Training: the same (LayerSplit::whole_experts).
  void deal_whole_experts() { ffn_ = model_.ffn; }
  const ExpertRanks& expert_ranks() const { return expert_ranks_; }
  /// Kernels of training instead of inference. The GPU has been at its power limit for long (steady); without training,
  /// products are bursts.
  void set_training(const TrainingForm& form) { training_ = form; }
  /// The default form if there is no training.
  const TrainingForm& form() const {
    static const TrainingForm kDefault;
    return training_ ? *training_ : kDefault;
  }

  // Pieces of a layer; layer_plan.h puts them together.
  /// Norms before a part. They may run on fewer tokens than the part (sequence parallelism).
  /// @param narrow  the last norm writes operands of narrow products
  Segment norm(LayerPart part, std::uint64_t tokens, bool narrow = false);
  Segment attention_body(const LayerPass& pass);
  /// Latent attention, before attention_body(): products to the compressed vectors, and their norms. Empty with other attention.
  Segment attention_down(std::uint64_t tokens, std::uint32_t kind);
  // The parts of attention_body(), in order.
  Segment attention_input(const LayerPass& pass);
  /// The part of attention_body() between the projections that depends on the length of the sequences.
  Segment attention_core(const LayerPass& pass);
  Segment attention_output(const LayerPass& pass);
  /// Adds the result of this pass, over some of the keys, to the result over others. @pre context parallelism
  Segment merge_attention(const LayerPass& pass);
  Segment mlp_body(std::uint64_t tokens, std::uint32_t kind = 0);
  // The parts of mlp_body() of a mixture of experts, in order.
  /// Router and permutation of a rank's tokens.
  Segment route(std::uint64_t tokens);
  // The parts of route().
  Segment router(std::uint64_t tokens);
  Segment permute(std::uint64_t tokens, const RankLoad* load = nullptr);
  /// Training: copies of each expert that a rank's tokens make; then those of all ranks, brought to the host. Empty if
  /// the host does not wait for them.
  bool waits_for_counts() const { return form().routed && form().routed->synchronizes && !form().routed->pads; }
  Segment count_copies(std::uint64_t tokens);
  Segment counts_of_ranks();
  /// This rank's share of the experts, if each of ep ranks routes so many tokens.
  /// @param load  of this rank's experts; null: even
  Segment local_experts(std::uint64_t tokens, std::uint32_t kind, std::uint32_t ep = 1, const RankLoad* load = nullptr);
  /// Of local_experts().
  Segment expert_activation(std::uint64_t tokens, std::uint32_t ep, const RankLoad* load);
  Segment combine(std::uint64_t tokens, const RankLoad* load = nullptr);
  // DeepEP: layer_kernels_deepep.cpp.
  /// Before its kernels.
  Segment choices(std::uint64_t tokens);
  Segment exchange_flags();
  /// After dispatch. The host waits for the end of each part but the last.
  std::vector<Segment> multihot(const ReceivedTokens& received);
  Segment permute(const ReceivedTokens& received);
  /// Before combine: rows of received tokens.
  Segment combine(const ReceivedTokens& received);
  // Backward, in order.
  Segment combine_backward(const ReceivedTokens& received);
  Segment permute_backward(const ReceivedTokens& received);
  std::vector<Segment> multihot_backward(const ReceivedTokens& received);
  Segment choices_backward(std::uint64_t tokens);
  bool dispatches_once() const { return form().routed && form().routed->dispatch == TokenDispatch::deepep; }
  /// Shared experts run beside exchanges with routed ones.
  bool runs_shared_beside() const { return shared_ffn_ > 0 && form().routed && form().routed->shared_beside; }
  /// Empty if the model has no shared experts.
  Segment shared_experts(std::uint64_t tokens, std::uint32_t kind);
  // Its two halves, each up to a product with the residual stream.
  Segment shared_experts_first(std::uint64_t tokens, std::uint32_t kind);
  Segment shared_experts_second(std::uint64_t tokens, std::uint32_t kind);
  /// The same of ranks that do not divide them.
  Segment whole_shared_experts(std::uint64_t tokens, std::uint32_t kind);
  /// After the output of a part has been reduced. Empty without dropout.
  Segment dropout(LayerPart part, std::uint64_t tokens);
  /// Dropout, and the bias of the part's last projection.
  Segment dropout_backward(LayerPart part, std::uint64_t tokens, Direction direction);
  Segment norm_backward(LayerPart part, std::uint64_t tokens);
  /// @param bytes  of all tokens
  Segment rearrange(Bytes bytes);
  // Narrow operands as wide as the residual stream; narrow_steps.h puts them into a layer. @pre the form has narrow products
  Segment hidden_amax(std::uint64_t tokens);
  Segment cast_hidden(std::uint64_t tokens, std::uint32_t copies);
  Segment transpose_hidden(std::uint64_t tokens);
  /// @param direction  backward, dgrad or wgrad
  PartBackward attention_backward(const LayerPass& pass, Direction direction);
  // The parts of attention_backward(), in order.
  Segment attention_output_backward(const LayerPass& pass, Direction direction);
  Segment attention_core_backward(const LayerPass& pass);
  PartBackward attention_input_backward(const LayerPass& pass, Direction direction);
  /// Of attention_down().
  Segment attention_down_backward(std::uint64_t tokens, Direction direction);
  /// A product of a layer's matrix with so many rows of tokens, launched for at most so many SMs (0: all).
  /// @pre not one of routed experts  @param kind  of the layer
  gpu::KernelTime product(const LinearUse& use, std::uint32_t kind, std::uint64_t tokens, std::uint32_t most_sms);
  /// Adds gradients of queries, keys and values of this pass to those of others. @pre context parallelism
  Segment merge_attention_backward(const LayerPass& pass);
  PartBackward mlp_backward(std::uint64_t tokens, std::uint32_t kind, Direction direction);
  // The parts of mlp_backward() of a mixture of experts, in order.
  Segment shared_experts_backward(std::uint64_t tokens, Direction direction);
  // Its two halves.
  Segment shared_experts_second_backward(std::uint64_t tokens, Direction direction);
  Segment shared_experts_first_backward(std::uint64_t tokens, Direction direction);
  Segment combine_backward(std::uint64_t tokens, Direction direction, const RankLoad* load = nullptr);
  Segment local_experts_backward(std::uint64_t tokens, Direction direction, std::uint32_t ep = 1,
                                 const RankLoad* load = nullptr);
  Segment route_backward(std::uint64_t tokens, Direction direction, const RankLoad* load = nullptr);
  /// Of route_backward().
  Segment router_backward(std::uint64_t tokens, Direction direction);

  // The ends of the model; end_plan.h puts those of training together.
  /// Before the first layer: lookup in this rank's rows of the vocabulary.
  Segment embedding(std::uint64_t tokens);
  /// Learned positions, added to the embeddings.
  Segment positions(std::uint64_t tokens);
  /// Gradients of embeddings and learned positions.
  Segment embedding_backward(std::uint64_t tokens);
  /// Training: logits of all tokens in this rank's part of the vocabulary, and their maxima.
  Segment logits(std::uint64_t tokens);
  Segment logit_exponentials(std::uint64_t tokens);
  Segment loss(std::uint64_t tokens);
  PartBackward head_backward(std::uint64_t tokens, Direction direction);
  /// Inference, after the last layer: final norm, LM head [h x V / tp] and sampling of `rows` positions (1 for a prompt's last
  /// chunk, the batch in decode).
  Segment head(std::uint64_t rows);

  /// Experts that `tokens` tokens reach when routed evenly: E (1 - (1 - k/E)^tokens), rounded; 0 for a dense model.
  std::uint32_t active_experts(std::uint64_t tokens) const;

  const gpu::GpuDatasheet& gpu() const { return timer_.gpu(); }
  /// Null: times come from formulas.
  const LayerProfile* profile() const { return profile_.get(); }
  /// Requests outside the measured range of the profile.
  const ProfileUse& profile_use() const { return profile_use_; }

 private:
  static constexpr double kLogitBytes = 4, kGradientBytes = 4, kMergedBytes = 4;  // fp32
  static constexpr double kMaskBytes = 1;                                         // of a number that may be dropped

  /// The experts of one of ep ranks. With a load, each of them is active.
  struct Experts {
    std::uint64_t routed;  ///< rows over all these experts
    std::uint32_t active;  ///< experts with at least one row
    std::uint64_t rows;    ///< rows of each active expert
  };
  Experts experts(std::uint64_t tokens, std::uint32_t ep = 1, const RankLoad* load = nullptr) const;
  /// Copies rows of a token to as many rows as it has experts on this rank, or back.
  void add_permutation(Segment& segment, const KernelId& id, std::uint64_t tokens, const RankLoad* load);
  void add_copies(Segment& segment, const KernelId& id, std::uint64_t tokens, std::uint64_t copies);
  /// What operators of a router read and write: the choices of all tokens, and all pairs of a token and an expert.
  struct Pairs {
    double choices = 0, pairs = 0;
  };
  Pairs pairs_of(std::uint64_t tokens) const;
  Pairs pairs_of(const ReceivedTokens& received) const;
  /// Operators of training, as one kernel with a launch each.
  /// @param pair_bytes  of each, for a token and an expert; 0: only for the choices of a token
  void add_routing(Segment& segment, const KernelId& id, const Pairs& of, const std::vector<double>& pair_bytes);
  /// Calls of the framework, each with so many kernels; the first kernel has all bytes.
  void add_calls(Segment& segment, const KernelId& id, double bytes, std::uint32_t calls, std::uint32_t kernels);
  // Of add_routing(), by the form; none without RoutedForm.
  void add_router_operators(Segment& segment, std::uint64_t tokens);
  void add_router_operators_backward(Segment& segment, std::uint64_t tokens);
  void add_row_numbers(Segment& segment, const Pairs& of);
  void add_rows_backward(Segment& segment, const Pairs& of);
  void add_sum_by_index(Segment& segment, std::uint64_t tokens);
  std::uint32_t sort_launches() const;
  /// Launches products with the matrices of each expert, and what narrows their operands, one by one, if the form does.
  void launch_each(Segment& segment, const Experts& experts) const;
  /// Of a product for each of these experts.
  bool multiplies_in_turn(std::uint32_t groups) const {
    return groups > 1 && form().routed && form().routed->products == ExpertProducts::sequential;
  }
  /// Rows from ep ranks, sorted by the experts of this rank (Megatron-LM, sort_chunks_by_idxs).
  void add_sort(Segment& segment, const KernelId& id, const Experts& experts, std::uint32_t ep);
  std::uint32_t norms(LayerPart part) const;
  /// Width of a dense layer's MLP on this rank.
  std::uint64_t dense_ffn() const { return model_.experts == 0 ? ffn_ : dense_ffn_; }
  /// The segment with times from the profile for x tokens or sequences; `formula` if there is no profile.
  Segment measured(const Segment& formula, double x, bool is_head = false);
  gpu::AttentionHeads attention_heads(const LayerPass& pass) const;
  /// All sequences of the pass in one kernel.
  gpu::KernelTime attention(const LayerPass& pass);
  void add_quantize(Segment& segment, std::uint64_t rows, std::uint64_t width, DataType dtype);
  void add_qk_norm(Segment& segment, std::uint64_t tokens);
  /// A norm of rows that are not the residual stream.
  void add_width_norm(Segment& segment, const KernelId& id, std::uint64_t rows, std::uint64_t width);
  // Latent attention: layer_kernels_latent.cpp.
  Segment latent_down(std::uint64_t tokens, std::uint32_t kind);
  Segment latent_down_backward(std::uint64_t tokens, Direction direction);
  Segment latent_up(const LayerPass& pass);
  PartBackward latent_up_backward(const LayerPass& pass, Direction direction);
  /// Keys without positions and values of this rank's heads.
  std::uint64_t expanded_width() const;
  /// Numbers that a token's keys of this rank's heads are made of, and they themselves: their own part, and that with positions,
  /// which all heads share.
  double joined_numbers() const;
  /// A key for each head.
  gpu::AttentionHeads expanded_heads() const;
  Segment latent_core(const LayerPass& pass);
  Segment absorbed_attention(const LayerPass& pass);
  Segment expanded_attention(const LayerPass& pass);
  /// The two matrices of an MLP.
  struct Mlp {
    Linear first, second;
  };
  static constexpr Mlp kMlp{Linear::fc1, Linear::fc2}, kExpertMlp{Linear::experts_fc1, Linear::experts_fc2};
  void add_mlp(Segment& segment, std::uint64_t tokens, std::uint64_t width, const std::optional<WeightFormat>& format);
  // Its two halves.
  void add_mlp_first(Segment& segment, std::uint64_t tokens, std::uint64_t width,
                     const std::optional<WeightFormat>& format);
  void add_mlp_second(Segment& segment, std::uint64_t tokens, std::uint64_t width,
                      const std::optional<WeightFormat>& format);
  PartBackward mlp_backward(const Mlp& mlp, const Experts& rows, std::uint64_t width, Direction direction);
  /// The same, where a kernel must narrow the gradient of the result first.
  Segment whole_mlp_backward(const Mlp& mlp, const Experts& rows, std::uint64_t width, Direction direction);
  void add_norm(Segment& segment, std::uint64_t tokens, std::optional<DataType> result = std::nullopt);
  /// @pre all sequences of the pass are equal
  Segment unfused_attention(const LayerPass& pass);
  Segment unfused_attention_backward(const LayerPass& pass);
  /// A kernel over the scores of all heads, which reads or writes this many numbers and bytes of masks for each.
  void add_scores(Segment& segment, const KernelId& id, const LayerPass& pass, double numbers, double mask_bytes);
  /// A kernel that reads or writes this many bytes for each logit of this rank.
  void add_logits(Segment& segment, const KernelId& id, std::uint64_t tokens, double bytes_per_logit);
  /// Where the form does not fuse them. @param elements  numbers of the input
  void add_norm_operators(Segment& segment, double elements, bool backward = false);
  void add_rotary_operators(Segment& segment, std::uint64_t tokens, bool backward = false);
  void add_gate_operators(Segment& segment, double elements, bool backward = false);
  void add_residual_operator(Segment& segment, double elements, bool backward = false);
  void add_softmax_operators(Segment& segment, double scores, bool backward = false);
  /// Of an MLP whose input to the second matrix has this width.
  void add_activation(Segment& segment, std::uint64_t tokens, std::uint64_t width);
  bool has_gate_operators() const { return model_.gated_mlp && !form().fused.activation; }
  /// A kernel over rows in the model's data type: norm with residual, activation of the MLP, embedding, or sampling.
  void add_rows(Segment& segment, const KernelId& id, gpu::KernelOp op, std::uint64_t tokens, std::uint64_t width,
                std::optional<DataType> result = std::nullopt);
  std::uint64_t qkv_width() const { return (heads_.query + 2ull * heads_.kv) * heads_.dim; }
  /// Widths of the matrices with a product of their own that make up a projection.
  using Widths = std::vector<std::uint64_t>;
  Widths qkv_widths() const;
  /// @param width  of the input to the MLP's second matrix
  Widths gate_up_widths(std::uint64_t width) const;
  /// Number of matrices in the first half of the MLP.
  std::uint64_t projections() const { return model_.gated_mlp ? 2 : 1; }
  /// The product runs in the library for block-scaled weights.
  bool runs_block_scaled(const gpu::GemmShape& shape) const;
  void add_gemm(Segment& segment, const KernelId& id, std::uint64_t m, std::uint64_t n, std::uint64_t k,
                const std::optional<WeightFormat>& format = std::nullopt, std::uint32_t groups = 1);
  /// A product of qkv, o_proj or MLP, which training may run with narrow operands.
  void add_projection(Segment& segment, Linear linear, std::uint64_t m, const Widths& n, std::uint64_t k,
                      const std::optional<WeightFormat>& format, std::uint32_t groups = 1);
  DataType projection_type() const { return form().narrow ? form().narrow->dtype : model_.dtype; }
  /// The product of a training step.
  /// Of a product in training: the clock, and the kernel that the recipe's scales need.
  void set_kernel(gpu::GemmShape& shape) const;
  gpu::KernelTime steady_gemm(gpu::GemmShape shape);
  enum class Operands : std::uint8_t { projection, wide };
  /// Gradients of C[m,n] = A[m,k] B[k,n].
  Segment gemm_dgrad(Direction direction, const KernelId& id, std::uint64_t m, const Widths& n, std::uint64_t k,
                     std::uint32_t groups = 1, Operands operands = Operands::projection);
  Segment gemm_wgrad(Direction direction, const KernelId& id, std::uint64_t m, const Widths& n, std::uint64_t k,
                     std::uint32_t groups = 1, Operands operands = Operands::projection);
  // Of the adapters beside a matrix; nothing without adapters.
  void add_adapter(Segment& segment, Linear linear, std::uint64_t m, const Widths& n, std::uint64_t k);
  void add_adapter_dgrad(Segment& segment, Linear linear, std::uint64_t m, const Widths& n, std::uint64_t k);
  void add_adapter_wgrad(Segment& segment, Linear linear, std::uint64_t m, const Widths& n, std::uint64_t k);
  /// What the product of a gradient of weights writes, and whether it adds.
  void set_gradient(gpu::GemmShape& wgrad) const;
  /// Adds gradients of weights to those of earlier micro-batches, where a kernel of its own does.
  void add_gradient_sum(Segment& segment, double elements);
  /// Kernels that narrow an operand of two products; none without narrow products.
  void add_narrowing(Segment& segment, std::uint64_t rows, std::uint64_t width);
  void add_narrowing(Segment& segment, std::uint64_t rows, std::uint64_t width, std::uint32_t copies);
  void add_amax(Segment& segment, std::uint64_t rows, std::uint64_t width);
  void add_cast(Segment& segment, std::uint64_t rows, std::uint64_t width, std::uint32_t copies);
  /// Weights [k, n] of one product, if they are narrowed before each.
  void add_weight_cast(Segment& segment, std::uint64_t n, std::uint64_t k, std::uint32_t groups);
  /// The gradient of a bias: the sum of the gradients of all rows.
  void add_bias_wgrad(Segment& segment, Direction direction, const KernelId& id, double elements);
  /// `elements` in the model's data type; the previous kernel wrote them or the next kernel reads them
  void add_elementwise(Segment& segment, const KernelId& id, double elements);

  ModelShape model_;
  ExpertRanks expert_ranks_;
  gpu::KernelTimer& timer_;
  gpu::AttentionHeads heads_;
  std::uint64_t ffn_, dense_ffn_, shared_ffn_, vocab_;  // of this rank
  double element_bytes_;
  std::optional<TrainingForm> training_;
  gpu::BlockScaledProducts block_scaled_;  // of inference
  std::shared_ptr<const LayerProfile> profile_;
  ProfileUse profile_use_;
};

}  // namespace railyard::transformer
