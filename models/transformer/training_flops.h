// FLOPs of a training step over all ranks, as papers count them: two for each multiplied parameter and token forward,
// twice as many backward (so 6 N T), and attention. Papers differ in attention: some count the scores of all keys,
// others only those that the causal mask leaves. For a GPT model with all keys and full recompute the count is 96 B s l
// h^2 (1 + s/6h + V/16lh) (Narayanan et al., arXiv 2104.04473, equation 3); without recompute, 72 B s l h^2 (1 + s/6h +
// V/12lh) (Korthikanti et al., arXiv 2205.05198, appendix A).
#pragma once

#include "transformer/model_shape.h"
#include "transformer/training_form.h"

namespace railyard::transformer {

enum class CountedKeys : std::uint8_t {
  all,    ///< of the sequence
  causal  ///< that a query sees
};

/// FLOPs of `sequences` sequences. With adapters, frozen matrices have no products for gradients of their weights: 4 N T
/// + 6 N_adapters T. The recomputed ones belong to the hardware's FLOPs, not to the model's.
double training_flops(const ModelShape& model, std::uint64_t sequences, std::uint64_t sequence_tokens, CountedKeys keys,
                      Recompute recompute = Recompute::none, const Adapters* adapters = nullptr);

}  // namespace railyard::transformer
