// What a training step keeps in the memory of the CPU sockets instead of the GPUs', as a TrainingSpec says it. Plain data.
//
//   activations  of the first `layers` layers of each virtual stage, a share leaves after the layer's forward pass and comes back
//                before its backward pass (activation_offload.h; TransformerEngine, cpu_offload.py; Megatron-LM, --cpu-offloading)
//   optimizer    gradients go down, the CPU runs Adam, weights come up (optimizer_offload.h; ZeRO-Offload, Ren et al., arXiv
//                2101.06840)
#pragma once

#include <cstdint>

namespace railyard::workload::training {

struct Offload {
  double activations = 0;  ///< share of what a layer keeps for its backward pass, 0 to 1
  std::uint32_t layers = kAllLayers;
  std::uint32_t prefetch_layers = 1;  ///< layers that come back before the layer whose backward pass runs
  bool optimizer = false;

  static constexpr std::uint32_t kAllLayers = ~0u;
  bool has_any() const { return activations > 0 || optimizer; }
};

}  // namespace railyard::workload::training
