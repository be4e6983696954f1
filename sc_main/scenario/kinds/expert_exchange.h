// Keys of training that say what reaches experts, and how: expert_capacity, pad_to_capacity, shared_experts_beside.
#pragma once

#include "sc_main/scenario/kinds/kind.h"
#include "workload/training/plan/training_spec.h"

namespace railyard::scenario {

/// Refuses what the model or the exchange lacks.
/// @pre sizes and software are set
void check_expert_exchange(const workload::training::TrainingSpec& spec, const transformer::ModelShape& model,
                           const Source& source);

}  // namespace railyard::scenario
