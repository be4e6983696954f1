// What a training pass does on tensor-parallel ranks before the first layer and after the last layer. The vocabulary is
// divided among the ranks (Shoeybi et al., arXiv 1909.08053, section 3): a rank looks up the tokens of its rows, and
// multiplies with its columns of the head. The loss needs the whole row of logits, so the ranks all-reduce three
// numbers of fp32 for each token (Megatron-LM, cross_entropy.py, fused form): the maximum, then the logit of the right
// token and the sum of exponentials.
//
//   embedding forward   lookup, all-reduce (sequence parallel: reduce-scatter), positions, norm (BLOOM), dropout
//   embedding backward  dropout, norm; sequence parallel: all-gather; gradients added to the rows
//   head forward        norm, [all-gather], lm_head, maximum, all-reduce, exponentials, 2 all-reduces, loss
//   head backward       loss, lm_head dgrad, wgrad, all-reduce (sequence parallel: reduce-scatter), norm
//
// Learned positions are added for all tokens on every rank. With them the lookup ends in an all-reduce, also with
// sequence parallelism: then each rank takes its tokens from the sum (Megatron-LM, reduce_scatter_embeddings).
//
// A backward pass divides into dgrad and wgrad like that of a layer (layer_plan.h).
#pragma once

#include <vector>

#include "transformer/layer_plan.h"

namespace railyard::transformer {

/// @pre the timer has the same model and tp; with sequence parallelism tp divides the tokens
std::vector<LayerStep> plan_embedding(const ModelShape& model, LayerTimer& timer, std::uint64_t tokens,
                                      const LayerSplit& split, Direction direction = Direction::forward);
std::vector<LayerStep> plan_head(const ModelShape& model, LayerTimer& timer, std::uint64_t tokens,
                                 const LayerSplit& split, Direction direction = Direction::forward);

}  // namespace railyard::transformer
