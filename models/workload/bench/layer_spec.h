// workload.kind: layer, typed and validated: one transformer layer on tensor-parallel ranks. Plain data; no SystemC.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "collective/engine.h"
#include "transformer/layer_profile.h"
#include "transformer/training_form.h"

namespace railyard::workload::layer {

enum class Phase : std::uint8_t { prefill, decode, training };
constexpr std::array<const char*, 3> kPhaseNames{"prefill", "decode", "training"};
constexpr const char* name_of(Phase phase) { return kPhaseNames[static_cast<std::size_t>(phase)]; }

struct LayerSpec {
  Phase phase = Phase::prefill;
  std::uint32_t tp = 1;              ///< number of ranks: the first `tp` GPUs of the first group
  std::uint32_t batch = 1;           ///< sequences
  std::uint64_t tokens = 1;          ///< new tokens of each sequence; decode: 1
  std::uint64_t context_tokens = 0;  ///< tokens of each sequence before the new ones
  bool sequence_parallel = false;    ///< norms on tokens / tp per rank, between all-gather and reduce-scatter
  transformer::TrainingForm form;    ///< phase training
  collective::Engine engine;         ///< of the collectives
  std::shared_ptr<const transformer::LayerProfile> profile;  ///< measured kernel times; null: times from the datasheet

  std::uint64_t all_tokens() const { return batch * tokens; }
};

}  // namespace railyard::workload::layer
