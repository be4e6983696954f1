// The workload of a scenario: requests with their arrival times, and the model laid out over the ranks of each group.
#pragma once

#include "sc_main/scenario/machine.h"
#include "workload/model_shape.h"

namespace railyard::scenario {

workload::prefill::PrefillSpec resolve_workload(const WorkloadSection& written, const workload::ModelShape& model,
                                                const platforms::MachineSpec& machine, const Source& source);

}  // namespace railyard::scenario
