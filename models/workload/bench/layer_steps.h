// The steps of workload.kind: layer: each kernel and each collective of a transformer layer (transformer/layer_plan.h),
// with its name, in the order of a rank's stream.
#pragma once

#include <string>
#include <vector>

#include "transformer/layer_plan.h"
#include "workload/bench/layer_spec.h"

namespace railyard::workload::layer {

struct LayerStep {
  std::string name;  ///< "attention.qkv", "mlp.all_reduce", "backward.mlp.down_wgrad", "recompute.attention.softmax"
  bool is_collective = false;
  gpu::KernelTime kernel;
  collective::Operation operation = collective::Operation::all_reduce;
  Bytes bytes = 0;  ///< of a collective, as counted by nccl-tests: the whole vector
};

/// The steps of the model's most frequent kind of layer. @pre tp divides the heads; with sequence parallelism also the
/// tokens
std::vector<LayerStep> plan_layer(const transformer::ModelShape& model, const LayerSpec& spec,
                                  transformer::LayerTimer& timer);

}  // namespace railyard::workload::layer
