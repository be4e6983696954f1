#include "transformer/step_list.h"

#include <utility>

#include "transformer/parameters.h"
#include "transformer/token_exchange.h"

namespace railyard::transformer {

using collective::Operation;

namespace {

/// Of the vectors that attention's first divided products read.
Bytes attention_input(const ModelShape& model, std::uint64_t tokens) {
  if (!model.latent) return hidden_bytes(model, tokens);
  const std::uint32_t queries = model.latent->query_rank > 0 ? model.latent->query_rank : model.hidden;
  return stored_bytes(tokens * (queries + model.latent->cached()), model.dtype);
}

}  // namespace

StepList::StepList(const ModelShape& model, std::uint64_t tokens, const LayerSplit& split, LayerTimer* timer)
    : tokens_(tokens),
      split_(split),
      timer_(timer),
      activations_(hidden_bytes(model, tokens)),
      narrow_activations_(split.gathered ? stored_bytes(tokens * model.hidden, *split.gathered) : activations_),
      attention_input_(attention_input(model, tokens)) {}

void StepList::add(LayerPart part, const Segment& kernels) {
  if (kernels.kernels.empty()) return;
  const bool runs_beside = steps_.size() > 1 && steps_[steps_.size() - 2].beside_next;
  if (std::exchange(ends_, false) || steps_.empty() || steps_.back().is_collective() ||
      steps_.back().host_waits != HostWait::none || steps_.back().part != part || runs_beside)
    steps_.push_back({part, {}});
  steps_.back().kernels.append(kernels);
}

void StepList::add_backward(LayerPart part, const PartBackward& kernels, const TrainingForm& form, Direction direction,
                            bool narrow) {
  const bool has_product = !kernels.input_wgrad.kernels.empty();
  const bool gathers_again = !form.keep_gathered && sequence_parallel() && has_product;
  const std::vector<NamedKernel>& dgrad = kernels.input_dgrad.kernels;
  const bool in_order = !dgrad.empty() && dgrad.back().role == KernelRole::input_gradient_sum;
  const Segment& beside = has_dgrad(direction) ? kernels.input_dgrad : kernels.body;
  if (has_dgrad(direction)) add(part, kernels.body);
  const Bytes gathered = narrow ? narrow_activations_ : input_bytes(part);
  if (gathers_again) {
    add(part, Operation::all_gather, gathered);
    steps_.back().beside_next = !beside.kernels.empty();
  }
  add(part, beside);
  if (gathers_again) rearrange(part, gathered);
  const InputReduce input_reduce = form.input_reduce[static_cast<std::size_t>(part)];
  if (input_reduce != InputReduce::after_wgrad && direction == Direction::backward && has_product && split_.tp > 1) {
    reduce_input(part, in_order);
    steps_.back().beside_next = input_reduce == InputReduce::beside_wgrad;
    add(part, kernels.input_wgrad);
    return;
  }
  add(part, kernels.input_wgrad);
  if (has_dgrad(direction)) reduce_input(part, in_order);
}

void StepList::add(LayerPart part, Operation operation, Bytes bytes) {
  if (split_.tp > 1) steps_.push_back({part, {}, operation, bytes});
}

void StepList::add(LayerPart part, RankGroup group, Operation operation, Bytes bytes, bool beside_next) {
  steps_.push_back({part, {}, operation, bytes, beside_next, group});
}

void StepList::add(LayerPart part, const TokenLeg& leg) {
  add(part, RankGroup::ep, Operation::all_to_all, leg.bytes);
  steps_.back().shares = leg.shares;
  steps_.back().tokens = leg.tokens;
}

void StepList::gather(LayerPart part) { gather(part, activations_); }

void StepList::gather_input(LayerPart part) { gather(part, input_bytes(part)); }

void StepList::gather(LayerPart part, Bytes bytes) {
  if (!split_.sequence_parallel) return;
  add(part, Operation::all_gather, bytes);
  rearrange(part, bytes);
}

void StepList::gather_narrow(LayerPart part, std::uint32_t directions) {
  if (!split_.gathered) return gather(part);
  if (!split_.sequence_parallel) return;
  add(part, Operation::all_gather, directions * narrow_activations_);
  rearrange(part, directions * narrow_activations_);
}

void StepList::reduce(LayerPart part, bool in_order) { reduce(part, in_order, activations_); }

void StepList::reduce_input(LayerPart part, bool in_order) { reduce(part, in_order, input_bytes(part)); }

void StepList::reduce(LayerPart part, bool in_order, Bytes bytes) {
  if (split_.sequence_parallel && !in_order) rearrange(part, bytes);
  add(part, split_.sequence_parallel ? Operation::reduce_scatter : Operation::all_reduce, bytes);
}

void StepList::rearrange(LayerPart part, Bytes bytes) {
  if (timer_ == nullptr || split_.tp == 1 || timer_->form().sequence_first) return;
  add(part, timer_->rearrange(bytes));
}

}  // namespace railyard::transformer
