#include "workload/training/plan/training_spec.h"

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

std::optional<transformer::RankLoad> TrainingSpec::load(const transformer::ModelShape& model, std::uint32_t layer,
                                                        std::uint32_t place) const {
  if (!routing || !model.routes(model.layer(layer))) return std::nullopt;
  const transformer::RoutedForm& routed = software.routed;
  if (routed.pads) return std::nullopt;  // each expert gets as many
  std::vector<double> shares = expert_shares(*routing, model.experts, model.experts_per_token, layer);
  if (routed.capacity) shares = transformer::capped_shares(std::move(shares), *routed.capacity);
  return transformer::rank_loads(shares, ep())[place];
}

std::string offload_needs(const TrainingSpec& spec, bool divides) {
  if (divides) return "a schedule without W slots";
  if (spec.defer_embedding_wgrad) return "defer_embedding_wgrad: false";
  if (spec.schedule.overlap_pairs) return "overlap_moe: false";
  if (spec.gtp() > 1) return "gtp: none";
  if (spec.form.recompute == transformer::Recompute::full && spec.recompute_method == RecomputeMethod::uniform &&
      spec.recompute_layers > 1)
    return "recomputation of layers one by one";
  return "";
}

}  // namespace railyard::workload::training
