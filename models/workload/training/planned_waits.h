// The share of a step's slots in which the SMs of a rank wait for collectives of its layers: those beside which no product
// runs. It is planned before the run, because the clock of the kernels depends on it (gpu/kernels/step_clock.h): each
// collective takes what NCCL expects. Bubbles, transfers between stages and the end of a step do not count. They last
// longer than the tenths of a second over which a GPU keeps its power limit.
#pragma once

#include "workload/parallel/mesh.h"
#include "workload/training/slot_plan.h"

namespace railyard::workload::training {

/// Over the slots of all virtual stages.
/// @param mesh  of the ranks of the spec, on a machine that is elaborated
double planned_waits(const SlotPlans& plans, const TrainingSpec& spec, const Mesh& mesh,
                     const transport::Fabric& fabric);

}  // namespace railyard::workload::training
