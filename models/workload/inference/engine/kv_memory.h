// Memory for the paged KV cache of an instance: what a rank of each stage has left beside weights, activations and the
// engine's own memory. vLLM finds the same by a profiling run with a full batch, which ends with logits for every
// sequence that can run at once.
#pragma once

#include <cstdint>
#include <vector>

#include "transformer/model_shape.h"
#include "workload/inference/engine/instance_spec.h"

namespace railyard::workload::inference {

/// The memory of a rank of a stage.
struct StageMemory {
  Bytes weights = 0, activations = 0;
  Bytes block = 0;  ///< of KV cache
  double left = 0;  ///< bytes for KV cache; negative if the rest does not fit
  std::uint32_t blocks() const;
};

/// @return by stage
std::vector<StageMemory> stage_memory(const transformer::ModelShape& model, const InstanceSpec& instance,
                                      const KvMemory& memory, double visible_bytes);

}  // namespace railyard::workload::inference
