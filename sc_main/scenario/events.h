// The events of a scenario. Each event belongs to a link or to a GPU and changes one property. Names are looked up when
// the machine is built (sc_main/events.h).
#pragma once

#include <vector>

#include "sc_main/scenario/machine.h"

namespace railyard::scenario {

std::vector<MachineEvent> resolve_events(const std::vector<EventItem>& written, const Source& source);

}  // namespace railyard::scenario
