// How a model is split over the GPUs of an instance. Plain data; no SystemC.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "transformer/layer_profile.h"
#include "transformer/parameters.h"
#include "transformer/routing.h"

namespace railyard::workload::inference {

struct Mapping {
  std::uint32_t tp = 1;
  std::uint32_t pp = 1;
  /// Attention replicas of tp ranks, which share the experts (transformer/replica_steps.h); more than one with pp 1 only.
  std::uint32_t dp = 1;
  /// Layers of each stage: pp entries, their sum is the model's number of layers.
  std::vector<std::uint32_t> stage_layers;
  /// Rank p*tp+t -> GPU index within the group (server * gpus per server + slot); ranks() entries, no GPU twice.
  /// With replicas: rank replica*tp+t.
  std::vector<std::uint32_t> placement;

  transformer::ExpertRanks experts;                          ///< experts dealt to tensor-parallel ranks
  std::shared_ptr<const transformer::LayerProfile> profile;  ///< measured kernel times; null: times from the datasheet

  std::uint32_t ranks() const { return tp * dp * pp; }
  /// Ranks p*tp+t of an attention replica, among all.
  std::vector<std::uint32_t> ranks_of(std::uint32_t replica) const {
    std::vector<std::uint32_t> of;
    for (std::uint32_t r = 0; r < tp * pp; ++r) of.push_back(r / tp * tp * dp + replica * tp + r % tp);
    return of;
  }
};

/// Of a stage, on each of its ranks: redundant experts included.
Bytes weight_bytes(const transformer::ModelShape& model, const transformer::Stage& stage, const Mapping& mapping);

}  // namespace railyard::workload::inference
