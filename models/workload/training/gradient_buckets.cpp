#include "workload/training/gradient_buckets.h"

namespace railyard::workload::training {

std::vector<GradientBucket> gradient_buckets(const transformer::ModelShape& model,
                                             const std::vector<std::pair<std::uint32_t, transformer::Stage>>& stages,
                                             std::uint32_t tp, std::uint64_t least_parameters) {
  std::vector<GradientBucket> buckets;
  GradientBucket bucket;
  for (const auto& [number, stage] : stages) {
    const bool is_last_stage = number == stages.back().first;
    const auto add = [&, number = number](const transformer::Stage& part, bool ends_stage) {
      bucket.parameters += transformer::rank_parameters(model, part, tp);
      const bool is_full = least_parameters > 0 && bucket.parameters >= least_parameters;
      if (!is_full && !(ends_stage && is_last_stage)) return;
      bucket.stage = number;
      buckets.push_back(std::move(bucket));
      bucket = {};
    };
    if (stage.layers == 0) add(stage, true);
    for (std::uint32_t l = stage.first_layer + stage.layers; l-- > stage.first_layer;) {
      const bool is_top = l + 1 == stage.first_layer + stage.layers, is_bottom = l == stage.first_layer;
      bucket.layers.push_back(l);
      add({1, stage.first && is_bottom, stage.last && is_top, l}, is_bottom);
    }
  }
  return buckets;
}

}  // namespace railyard::workload::training
