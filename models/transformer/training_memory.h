// Activations that a rank keeps from the forward pass of a micro-batch until its backward pass, tensor by tensor
// (Korthikanti et al., arXiv 2205.05198, section 4, for GPT). With s tokens in each of b sequences, h hidden, a heads,
// t ranks, 16-bit numbers, dropout and unfused attention, a GPT layer keeps in bytes (their table 2):
//
//   one rank                sbh (34 + 5as/h)
//   tensor parallel         sbh (10 + 24/t + 5as/(ht))
//   sequence parallel       sbh (34/t + 5as/(ht))
//   selective recompute     without the term of as
//   full recompute          2sbh, the input of the layer
//
// A tensor that two kernels read counts once: the input of a projection is the output of the kernel before it. A norm
// keeps its input. Statistics of norms and token numbers are too small to count. A flash kernel keeps its output, which
// is the input of the output projection, and one fp32 number for each query and head. Dropout keeps a mask of one byte
// a number, but a flash kernel generates its mask again. A mixture of experts keeps the routed copies of its tokens and
// the gathered input of the router.
//
// Narrow products (narrow_products.h) keep their inputs in the narrow type, in the direction of wgrad. A flash kernel keeps
// its output in 16 bits as well, and a router its input.
//
// Between the dgrad and the wgrad pass of a layer (zero-bubble schedules), the inputs of all products and the gradients
// of their outputs are kept: 32sbh of a GPT layer (Qi et al., arXiv 2401.10241, table 1).
#pragma once

#include <string>
#include <vector>

#include "base/units.h"
#include "transformer/layer_plan.h"

namespace railyard::transformer {

/// Equal sequences that pass through a stage together.
struct MicroBatch {
  std::uint64_t sequences = 1;
  std::uint64_t sequence_tokens = 1;
  std::uint64_t tokens() const { return sequences * sequence_tokens; }
};

struct KeptTensor {
  std::string name;  ///< "attention.softmax", "mlp.down_input"
  Bytes bytes = 0;   ///< on one rank
};
Bytes sum_of(const std::vector<KeptTensor>& tensors);

/// One layer, from its forward pass to its backward pass. @param kind  kind of layer
std::vector<KeptTensor> kept_by_layer(const ModelShape& model, std::uint32_t kind, const MicroBatch& batch,
                                      const LayerSplit& split, const TrainingForm& form);
/// One layer, from its dgrad pass to its wgrad pass.
std::vector<KeptTensor> kept_for_wgrad(const ModelShape& model, std::uint32_t kind, const MicroBatch& batch,
                                       const LayerSplit& split, const TrainingForm& form);

/// The same for the ends of the model, which are never recomputed.
std::vector<KeptTensor> kept_by_embedding(const ModelShape& model, const MicroBatch& batch, const LayerSplit& split,
                                          const TrainingForm& form);
/// @param logit_bytes  of a logit: Megatron-LM keeps the softmax in fp32
std::vector<KeptTensor> kept_by_head(const ModelShape& model, const MicroBatch& batch, const LayerSplit& split,
                                     const TrainingForm& form, Bytes logit_bytes = 4);
/// Logits of a rank.
std::uint64_t logits(const ModelShape& model, const MicroBatch& batch, const LayerSplit& split);
std::vector<KeptTensor> kept_for_head_wgrad(const ModelShape& model, const MicroBatch& batch, const LayerSplit& split,
                                            const TrainingForm& form);

}  // namespace railyard::transformer
