// Keys of training that say what reaches experts, and how: expert_exchange, expert_capacity, shared_experts_beside.
#pragma once

#include "sc_main/scenario/kinds/kind.h"
#include "workload/training/plan/training_spec.h"

namespace railyard::scenario {

/// Refuses deepep where it has no kernels for the groups of expert-parallel ranks, and what the model or the exchange lacks.
/// @pre sizes, placement and software are set
void check_expert_exchange(const workload::training::TrainingSpec& spec, const transformer::ModelShape& model,
                           const platforms::MachineSpec& machine, const Source& source);

}  // namespace railyard::scenario
