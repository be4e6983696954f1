// workload.kv_tiers of `serving`: copies of KV cache outside of the GPUs.
#pragma once

#include <vector>

#include "sc_main/scenario/table/node.h"
#include "sc_main/scenario/table/record.h"
#include "workload/inference/service/serving_spec.h"

namespace railyard::scenario {

Record<workload::inference::KvTiers> kv_tiers_record();
/// Sets where they are written, and the peers. @throws InputError  an instance does not look for equal prefixes, or has no peer
/// @param gpus_per_server  of the board
void check_kv_tiers(workload::inference::KvTiers& tiers,
                    const std::vector<workload::inference::InstanceSpec>& instances, std::uint32_t gpus_per_server,
                    const Source& source);

}  // namespace railyard::scenario
