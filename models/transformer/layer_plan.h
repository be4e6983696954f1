// The one statement of a decoder layer on tensor-parallel ranks: which kernels follow each other on a rank, and where the
// ranks meet (Shoeybi et al., arXiv 1909.08053; Korthikanti et al., arXiv 2205.05198). Every rank has the same steps.
//
//   forward            norm, attention, all-reduce; norm, MLP, all-reduce
//   backward           MLP, all-reduce, norm; attention, all-reduce, norm
//   sequence parallel  norms on tokens / tp; each all-reduce becomes a reduce-scatter behind and an all-gather in front,
//                      and in the backward pass the other way round
//
// A framework that keeps sharded inputs gathers them once more for the gradients of the weights, beside the dgrad product.
// That gather is taken to be hidden and is no step.
#pragma once

#include <vector>

#include "collective/spec.h"
#include "transformer/layer_kernels.h"

namespace railyard::transformer {

/// How a layer is divided among ranks.
struct LayerSplit {
  std::uint32_t tp = 1;            ///< divides the query heads
  bool sequence_parallel = false;  ///< tp divides the tokens
};

enum class Direction : std::uint8_t { forward, backward };

/// Kernels of one rank, or a collective of all of them.
struct LayerStep {
  LayerPart part = LayerPart::attention;
  Segment kernels;  ///< none: a collective
  collective::Operation operation = collective::Operation::all_reduce;
  Bytes bytes = 0;  ///< of a collective, as nccl-tests counts: the whole vector

  bool is_collective() const { return kernels.kernels.empty(); }
};

/// Consecutive kernels of one part are one step. Without peers there are no collectives.
/// @pre the timer is of the same model and tp
std::vector<LayerStep> plan_layer(const ModelShape& model, LayerTimer& timer, const LayerPass& pass,
                                  const LayerSplit& split, Direction direction = Direction::forward);

/// The collectives of plan_layer(), without the kernels' times: the same for both directions but for their order.
std::vector<LayerStep> layer_collectives(const ModelShape& model, std::uint64_t tokens, const LayerSplit& split);

}  // namespace railyard::transformer
