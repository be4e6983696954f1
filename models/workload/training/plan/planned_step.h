// What the kernels and collectives of a step are expected to take, before the run: each collective what NCCL expects.
// Two things depend on it.
//
//   clock      the share of the slots in which the SMs wait for collectives, and that in which a product runs beside one
//              (gpu/kernels/step_clock.h). Bubbles, transfers between stages and the end of a step do not count. They
//              last longer than the tenths of a second over which a GPU keeps its power limit.
//   schedule   durations of slots and transfers, from which zb_auto finds its order. Each slot is timed alone, as Zero
//              Bubble profiles them (arXiv 2401.10241, section 3): the GPU waits for what the host does before the slot
#pragma once

#include <vector>

#include "gpu/kernels/step_clock.h"
#include "workload/parallel/mesh.h"
#include "workload/training/plan/slot_plan.h"
#include "workload/training/schedule/times.h"

namespace railyard::workload::training {

/// Over the slots of all virtual stages.
/// @param mesh  of the ranks of the spec, on a machine that is elaborated
gpu::LayerTraffic planned_traffic(const SlotPlans& plans, const TrainingSpec& spec, const Mesh& mesh,
                                  const transport::Fabric& fabric);

/// Of the slots and of transfers, by virtual stage. A slot takes its kernels and the collectives for which they wait, or,
/// where the host launches kernels, at least the time of the host; forward slots also the host's preparation.
/// @param sent_bytes  to the rank of the next virtual stage, which is the next pipeline rank
std::vector<StageTimes> planned_times(const SlotPlans& plans, const TrainingSpec& spec, const Mesh& mesh,
                                      const transport::Fabric& fabric, Bytes sent_bytes);

}  // namespace railyard::workload::training
