#include "transformer/step_list.h"

#include "transformer/parameters.h"

namespace railyard::transformer {

using collective::Operation;

StepList::StepList(const ModelShape& model, std::uint64_t tokens, const LayerSplit& split)
    : tokens_(tokens), split_(split), activations_(hidden_bytes(model, tokens)) {}

void StepList::add(LayerPart part, const Segment& kernels) {
  if (kernels.kernels.empty()) return;
  if (steps_.empty() || steps_.back().is_collective() || steps_.back().part != part) steps_.push_back({part, {}});
  steps_.back().kernels.append(kernels);
}

void StepList::add_backward(LayerPart part, const PartBackward& kernels, bool gathers_again) {
  if (!gathers_again || !sequence_parallel() || kernels.input_wgrad.kernels.empty()) {
    for (const Segment* segment : {&kernels.body, &kernels.input_dgrad, &kernels.input_wgrad}) add(part, *segment);
    return;
  }
  const bool has_dgrad = !kernels.input_dgrad.kernels.empty();
  const Segment& beside = has_dgrad ? kernels.input_dgrad : kernels.body;
  if (has_dgrad) add(part, kernels.body);
  gather(part);
  steps_.back().beside_next = !beside.kernels.empty();
  add(part, beside);
  steps_.push_back({part, kernels.input_wgrad});
}

void StepList::add(LayerPart part, Operation operation, Bytes bytes) {
  if (split_.tp > 1) steps_.push_back({part, {}, operation, bytes});
}

void StepList::gather(LayerPart part) {
  if (split_.sequence_parallel) add(part, Operation::all_gather, activations_);
}

void StepList::reduce(LayerPart part) {
  add(part, split_.sequence_parallel ? Operation::reduce_scatter : Operation::all_reduce, activations_);
}

}  // namespace railyard::transformer
