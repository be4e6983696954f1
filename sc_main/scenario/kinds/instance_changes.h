// Events of instances, with their names looked up.
#pragma once

#include <vector>

#include "sc_main/scenario/kinds/kind.h"
#include "workload/inference/service/serving_spec.h"

namespace railyard::scenario {

/// @throws InputError: no such instance, or nothing can happen to it then; nobody takes requests at time zero, or later
std::vector<workload::inference::InstanceChange> resolve_instance_changes(
    const std::vector<InstanceEvent>& events, const std::vector<workload::inference::InstanceSpec>& instances,
    const Source& source);

}  // namespace railyard::scenario
