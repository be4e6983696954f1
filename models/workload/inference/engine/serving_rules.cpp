#include "workload/inference/engine/serving_rules.h"

#include <algorithm>

#include "transformer/parameters.h"

namespace railyard::workload::inference {

std::vector<std::uint32_t> divided_layers(std::uint32_t layers, std::uint32_t stages, ExtraLayers extra) {
  std::vector<std::uint32_t> divided = transformer::even_stage_layers(layers, stages);
  const std::uint32_t longer = layers % stages;
  if (extra == ExtraLayers::first || longer == 0) return divided;
  const std::uint32_t after = extra == ExtraLayers::before_last ? 1 : 0;
  std::rotate(divided.begin(), divided.begin() + longer + after, divided.end());
  return divided;
}

}  // namespace railyard::workload::inference
