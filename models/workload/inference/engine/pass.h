// The kernels and collectives of one forward pass of an instance: what the scheduler has composed, planned layer by layer.
#pragma once

#include <cstdint>
#include <vector>

#include "workload/inference/engine/grid.h"
#include "workload/inference/scheduler/scheduled_batch.h"

namespace railyard::workload::inference {

/// A batch with its kernels and collectives.
struct Pass {
  std::uint32_t index = 0;  ///< index of the chunk or step, for names
  static constexpr std::uint32_t kOnly = ~0u;
  std::uint32_t request = kOnly;  ///< for names, if a run has several requests
  std::uint64_t tokens = 0;
  gpu::SharedChain embedding, head;  ///< null if the pass has none
  /// A step of a layer: kernels, or a collective if `kernels` is null.
  struct Step {
    transformer::LayerPart part = transformer::LayerPart::attention;
    gpu::SharedChain kernels;
    collective::Operation operation = collective::Operation::all_reduce;
    Bytes bytes = 0;
    bool begins_layer = false;  ///< of a draft: the host launches its layer
  };
  std::vector<std::vector<Step>> layers;  ///< by the model's kinds of layers
  std::vector<std::vector<Step>> drafts;  ///< passes of the last stage that follow (drafter.h)
  Time draft_launch;                      ///< host time for each of their layers
  Time prepare;                           ///< host time before the first kernel
  Time launch;                            ///< host time for each layer; 0: all layers are launched at once
  bool host_is_async = false;             ///< prepared at once; else when stage
                                          ///< 0 has finished the previous pass
};

/// @param padded_tokens  of the CUDA graph that contains everything but attention; 0: the batch's own tokens
Pass plan_pass(Grid& grid, const ScheduledBatch& batch, const Host& host, std::uint64_t padded_tokens = 0);

}  // namespace railyard::workload::inference
