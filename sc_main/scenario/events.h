// The events of a scenario. Each event belongs to a link, to a GPU or to an instance and changes one property. Names of links and GPUs
// are looked up when the machine is built (sc_main/events.h), those of instances by the kind of workload.
#pragma once

#include <vector>

#include "sc_main/scenario/instance_event.h"
#include "sc_main/scenario/machine.h"

namespace railyard::scenario {

/// Those of links and GPUs.
std::vector<MachineEvent> resolve_events(const std::vector<EventItem>& written, const Source& source);
/// Those of instances, by time.
/// @param has_instances  the kind of workload has some
std::vector<InstanceEvent> resolve_instance_events(const std::vector<EventItem>& written, bool has_instances,
                                                   const Source& source);

}  // namespace railyard::scenario
