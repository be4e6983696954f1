// workload.kind: disaggregated_prefill, typed and validated. Plain data; no SystemC.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/units.h"
#include "collective/engine.h"
#include "transformer/layer_profile.h"
#include "workload/host.h"
#include "workload/inference/request.h"

namespace railyard::workload::inference {

enum class NicRule { modulo, nearest };
/// When the KV of a prompt is sent: when it is computed for a layer, a chunk or the prompt, into memory that the decode
/// instance has reserved before; or when the decode instance fetches it, after the prompt.
enum class HandoffGrain { per_layer, per_chunk, at_end, fetched };
enum class PpSend { shard, full };

struct Mapping {
  std::uint32_t tp = 1;
  std::uint32_t pp = 1;
  /// Layers of each stage: pp entries, their sum is the model's number of layers.
  std::vector<std::uint32_t> stage_layers;
  /// Rank p*tp+t -> GPU index within the group (server * gpus per server + slot); tp*pp entries, no GPU twice.
  std::vector<std::uint32_t> placement;

  std::shared_ptr<const transformer::LayerProfile> profile;  ///< measured kernel times; null: times from the datasheet

  std::uint32_t ranks() const { return tp * pp; }
};

struct PrefillSpec {
  std::vector<Request> requests;  ///< ordered by arrival
  std::uint32_t chunk_tokens = 256;
  double memory_limit_ratio = 0.9;
  NicRule nic_rule = NicRule::modulo;
  HandoffGrain handoff = HandoffGrain::per_chunk;
  PpSend pp_send = PpSend::shard;
  Mapping prefill;
  Mapping decode;
  std::uint32_t max_batch = 32;  ///< of a decode step
  Host host;                     ///< of each instance: one host for prefill, one for decode
  collective::Engine engine;     ///< of both instances
};

}  // namespace railyard::workload::inference
