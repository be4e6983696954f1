// The steps of workload.kind: layer: each kernel and each collective of a transformer layer (transformer/layer_plan.h),
// with its name, in the order of a rank's stream.
#pragma once

#include <algorithm>
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
  /// A collective runs beside so many of the next steps; the step after these waits for it. 0: the next step waits.
  std::uint32_t beside = 0;
};

/// The steps of the model's most frequent kind of layer. @pre tp divides the heads; with sequence parallelism also the
/// tokens
std::vector<LayerStep> plan_layer(const transformer::ModelShape& model, const LayerSpec& spec,
                                  transformer::LayerTimer& timer);

/// Whether any collective runs beside kernels.
inline bool runs_beside(const std::vector<LayerStep>& steps) {
  return std::any_of(steps.begin(), steps.end(), [](const LayerStep& step) { return step.beside > 0; });
}

}  // namespace railyard::workload::layer
