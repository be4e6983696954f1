// Collects the steps of a pass of `tokens` tokens on tensor-parallel ranks: layer_plan.h and end_plan.h say which.
#pragma once

#include <vector>

#include "transformer/layer_plan.h"

namespace railyard::transformer {

struct TokenLeg;

class StepList {
 public:
  /// @param timer  of the copies that collectives need; null: steps have no kernels
  StepList(const ModelShape& model, std::uint64_t tokens, const LayerSplit& split, LayerTimer* timer);

  std::uint64_t tokens() const { return tokens_; }
  /// Tokens of a rank where tokens are divided among ranks: norms, dropout, residual stream.
  std::uint64_t divided_tokens() const { return split_.sequence_parallel ? tokens_ / split_.tp : tokens_; }
  const LayerSplit& split() const { return split_; }
  bool sequence_parallel() const { return split_.sequence_parallel && split_.tp > 1; }

  /// Joins the kernels to the last step if it is of the same part and does not run beside a collective.
  void add(LayerPart part, const Segment& kernels);
  /// The next kernels are a step of their own.
  void end_step() { ends_ = true; }
  /// A part's backward kernels, and the sum of the gradients of its input over the ranks if there is dgrad.
  /// @param narrow  the input of the part's first product was gathered narrow
  void add_backward(LayerPart part, const PartBackward& kernels, const TrainingForm& form, Direction direction,
                    bool narrow = false);
  /// A collective over tensor-parallel ranks.
  void add(LayerPart part, collective::Operation operation, Bytes bytes);
  /// A collective of any group of two ranks or more.
  void add(LayerPart part, RankGroup group, collective::Operation operation, Bytes bytes, bool beside_next = false);
  /// The last step, a collective of equal messages, gets these.
  void set_shares(collective::Shares shares) { steps_.back().shares = std::move(shares); }
  /// The last step, a collective, runs beside the next one.
  void run_beside_next() { steps_.back().beside_next = true; }
  /// The host waits for the last step. @pre there is one
  void wait_on_host(HostWait when) { steps_.back().host_waits = when; }
  /// An exchange of tokens over the ranks with experts.
  void add(LayerPart part, const TokenLeg& leg);
  void all_reduce(LayerPart part) { add(part, collective::Operation::all_reduce, activations_); }
  /// Before kernels that need all tokens.
  void gather(LayerPart part);
  /// The same of what the part's kernels read: with latent attention, compressed vectors.
  void gather_input(LayerPart part);
  /// The same in the type of narrow products, if the split has one. @param directions  copies of each number
  void gather_narrow(LayerPart part, std::uint32_t directions = 1);
  /// After kernels that leave partial sums of all tokens. @param in_order  a kernel wrote them as a reduce-scatter needs
  void reduce(LayerPart part, bool in_order = false);

  std::vector<LayerStep> take() { return std::move(steps_); }

 private:
  /// Sums gradients of what gather_input() gathers.
  void reduce_input(LayerPart part, bool in_order);
  void gather(LayerPart part, Bytes bytes);
  void reduce(LayerPart part, bool in_order, Bytes bytes);
  Bytes input_bytes(LayerPart part) const { return part == LayerPart::attention ? attention_input_ : activations_; }
  /// Copies the tokens of a sequence-parallel collective, if the form needs it.
  void rearrange(LayerPart part, Bytes bytes);

  const std::uint64_t tokens_;
  const LayerSplit split_;
  LayerTimer* const timer_;
  const Bytes activations_, narrow_activations_, attention_input_;
  std::vector<LayerStep> steps_;
  bool ends_ = false;  ///< the last one
};

}  // namespace railyard::transformer
