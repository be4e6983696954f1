// The steps of one transformer layer on a tensor-parallel rank, in the order of its stream: kernels, and the collectives in
// which it meets the others (Shoeybi et al., arXiv 1909.08053; Korthikanti et al., arXiv 2205.05198). Every rank's are alike.
//
//   forward            norm, attention, all-reduce; norm, MLP, all-reduce
//   backward           MLP, all-reduce, norm; attention, all-reduce, norm
//   sequence parallel  norms on tokens / tp; each all-reduce becomes a reduce-scatter behind and an all-gather in front, and
//                      backward the other way round
//
// A framework that keeps sharded inputs gathers them once more for the gradients of the weights, beside the dgrad product;
// that gather is taken to be hidden and is no step.
#pragma once

#include <string>
#include <vector>

#include "collective/spec.h"
#include "workload/layer/spec.h"
#include "workload/transformer/layer_kernels.h"

namespace railyard::workload::layer {

struct LayerStep {
  std::string name;  ///< "attention.qkv", "mlp.all_reduce", "backward.mlp.down_wgrad"
  bool is_collective = false;
  gpu::KernelTime kernel;
  collective::Operation operation = collective::Operation::all_reduce;
  Bytes bytes = 0;  ///< of a collective, as nccl-tests counts: the whole vector
};

/// Of the model's commonest kind of layer. @pre tp divides the heads, and with sequence parallelism the tokens
std::vector<LayerStep> plan_layer(const ModelShape& model, const LayerSpec& spec, LayerTimer& timer);

}  // namespace railyard::workload::layer
