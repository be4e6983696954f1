// The key gtp.reduce of training: whether NVSwitches can add gradients.
#pragma once

#include "sc_main/scenario/kinds/kind.h"
#include "workload/training/plan/training_spec.h"

namespace railyard::scenario {

/// Refuses reduce: nvls where switches cannot add what the ranks of a group scatter.
/// @pre sizes, placement and software are set
void check_gtp_sums(const workload::training::TrainingSpec& spec, const platforms::MachineSpec& machine,
                    const Source& source);

}  // namespace railyard::scenario
