// The collectives of a rank's layers, as shares of a step's slots: those for which its SMs wait, and those beside which a
// product runs. They are planned before the run, because the clock of the kernels depends on them
// (gpu/kernels/step_clock.h): each collective takes what NCCL expects. Bubbles, transfers between stages and the end of
// a step do not count. They last longer than the tenths of a second over which a GPU keeps its power limit.
#pragma once

#include "gpu/kernels/step_clock.h"
#include "workload/parallel/mesh.h"
#include "workload/training/slot_plan.h"

namespace railyard::workload::training {

/// Over the slots of all virtual stages.
/// @param mesh  of the ranks of the spec, on a machine that is elaborated
gpu::LayerTraffic planned_traffic(const SlotPlans& plans, const TrainingSpec& spec, const Mesh& mesh,
                                  const transport::Fabric& fabric);

}  // namespace railyard::workload::training
