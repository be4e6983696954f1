// Attention on context-parallel ranks: each of cp ranks has s / cp tokens of each sequence of s tokens, and runs all
// kernels on them. Only attention needs the keys and values of all tokens. A sequence is cut into 2 cp equal parts; rank r
// has part r and, from the other end, part 2 cp - 1 - r (zigzag). So each rank has the same number of query-key pairs
// under a causal mask (Dubey et al., arXiv 2407.21783, section 3.3.2; TransformerEngine, context_parallel.py).
//
//   all_gather  keys and values of all ranks are gathered; one kernel. Backward they are gathered again, and their
//               gradients are reduce-scattered
//   p2p         cp kernels. Beside each but the last, keys and values move one rank on in a ring. The first kernel has the
//               rank's own keys; in the others, half of the queries meet all keys in hand, or all queries half of them.
//               Each of these is merged into the result. Backward, gradients of keys and values follow one step behind
//   a2a         all-to-alls trade tokens for heads: attention of all tokens on heads / cp (DeepSpeed-Ulysses, arXiv
//               2309.14509)
//
// Kernels have the times of rank 0, which has the last part, whose queries see all keys.
#pragma once

#include "transformer/step_list.h"

namespace railyard::transformer {

/// The tokens of a sequence on a rank, and the keys before them. @pre 2 cp divides the tokens, or cp = 1
std::vector<gpu::AttentionSequence> context_part(std::uint64_t sequence_tokens, std::uint32_t cp, std::uint32_t place);

/// Keys and values of the pass's tokens on a tensor-parallel rank, which p2p sends on in a step.
Bytes context_bytes(const ModelShape& model, std::uint64_t tokens, std::uint32_t tp);

/// Between the projections. @param timer  null: only the collectives
/// @pre the pass has the parts of rank 0
void add_context_core(StepList& steps, LayerTimer* timer, const ModelShape& model, const LayerPass& pass);
void add_context_core_backward(StepList& steps, LayerTimer& timer, const ModelShape& model, const LayerPass& pass);

}  // namespace railyard::transformer
