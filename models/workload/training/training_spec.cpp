#include "workload/training/training_spec.h"

#include <algorithm>

namespace railyard::workload::training {

LayerRange TrainingSpec::recomputed_with(const transformer::Stage& stage, std::uint32_t layer) const {
  const std::uint32_t place = layer - stage.first_layer;
  switch (form.recompute) {
    case transformer::Recompute::none: return {};
    case transformer::Recompute::selective: return {layer, layer + 1};
    case transformer::Recompute::full: break;
  }
  if (recompute_method == RecomputeMethod::block)
    return place < recompute_layers ? LayerRange{layer, layer + 1} : LayerRange{};
  const std::uint32_t begin = stage.first_layer + place / recompute_layers * recompute_layers;
  return {begin, std::min(begin + recompute_layers, stage.first_layer + stage.layers)};
}

}  // namespace railyard::workload::training
