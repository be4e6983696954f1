#include "workload/training/gradient_buckets.h"

namespace railyard::workload::training {

namespace {

void add_buckets(std::vector<GradientBucket>& buckets, const transformer::ModelShape& model,
                 const std::vector<std::pair<std::uint32_t, transformer::Stage>>& stages, std::uint32_t tp,
                 std::uint32_t ep, std::uint64_t least_parameters, bool experts) {
  GradientBucket bucket;
  const auto close = [&](std::uint32_t stage) {
    if (bucket.parameters > 0) {
      bucket.stage = stage;
      bucket.experts = experts;
      buckets.push_back(std::move(bucket));
    }
    bucket = {};
  };
  for (const auto& [number, stage] : stages) {
    const auto add = [&, number = number](const transformer::Stage& part) {
      const transformer::RankParameters of_part = rank_parameters(model, part, tp, ep);
      bucket.parameters += experts ? of_part.experts : of_part.common;
      if (least_parameters > 0 && bucket.parameters >= least_parameters) close(number);
    };
    if (stage.layers == 0) add(stage);
    for (std::uint32_t l = stage.first_layer + stage.layers; l-- > stage.first_layer;) {
      const bool is_top = l + 1 == stage.first_layer + stage.layers, is_bottom = l == stage.first_layer;
      bucket.layers.push_back(l);
      add({1, stage.first && is_bottom, stage.last && is_top, l});
    }
  }
  if (!stages.empty()) close(stages.back().first);
}

}  // namespace

std::vector<GradientBucket> gradient_buckets(const transformer::ModelShape& model,
                                             const std::vector<std::pair<std::uint32_t, transformer::Stage>>& stages,
                                             std::uint32_t tp, std::uint32_t ep, std::uint64_t least_parameters) {
  std::vector<GradientBucket> buckets;
  for (const bool experts : {false, true}) add_buckets(buckets, model, stages, tp, ep, least_parameters, experts);
  return buckets;
}

}  // namespace railyard::workload::training
