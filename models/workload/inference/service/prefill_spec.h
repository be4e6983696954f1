// workload.kind: disaggregated_prefill, typed and validated. Plain data; no SystemC.
#pragma once

#include <cstdint>
#include <vector>

#include "workload/inference/service/serving_spec.h"

namespace railyard::workload::inference {

enum class NicRule { modulo, nearest };

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

/// One instance for prompts and one for answers, with memory for a request reserved on both before its prompt.
ServingSpec as_serving(const PrefillSpec& spec);

}  // namespace railyard::workload::inference
