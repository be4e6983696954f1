// Memory of the instances of a service on their GPUs, before a run: what is there for KV cache, and errors if that is too little.
#pragma once

#include <cstdint>
#include <vector>

#include "sc_main/scenario.h"
#include "transformer/memory.h"
#include "workload/inference/engine/kv_memory.h"
#include "workload/inference/service/serving_spec.h"

namespace railyard {

/// Of an instance with paged KV cache, by stage.
std::vector<workload::inference::StageMemory> stage_memory(const Scenario& scenario,
                                                           const workload::inference::InstanceSpec& instance);
/// Blocks of paged KV cache: those of the smallest rank, or what the scenario says.
/// @throws InputError: there are too few, also for the longest request
std::uint32_t kv_blocks(const Scenario& scenario, const workload::inference::InstanceSpec& instance);

/// A part of workload.kv_tiers.
struct TierMemory {
  const char* name;             ///< its key
  double bytes_per_server = 0;  ///< 0: there is none
  Origin where;
};
/// Of each attention replica of each instance: blocks there, on its servers, of its KV, or of a pool that it shares with others.
/// @param pools  by store, as KvTiers::pools; none: nothing is shared
/// @throws InputError: not one
std::vector<std::vector<std::uint64_t>> tier_kv_blocks(const Scenario& scenario, const TierMemory& tier,
                                                       const std::vector<std::uint32_t>& pools);

/// The largest load of an instance whose sequences have memory for all their tokens: a sequence that is as long as the longest one
/// there, and a pass over as many tokens as a batch can have. @pre the requests are listed
transformer::MemoryLoad whole_sequence_load(const workload::inference::ServingSpec& spec,
                                            const workload::inference::InstanceSpec& instance);
/// @throws InputError: this load does not fit into memory
void check_whole_sequences(const Scenario& scenario, const workload::inference::InstanceSpec& instance);

}  // namespace railyard
