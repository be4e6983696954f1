// Link state of a run that cannot progress: for each waiting message its job, its position and the credit for which it
// waits; then a cycle of messages that wait for each other.
#pragma once

#include <string>
#include <vector>

#include "sc_main/simulation.h"

namespace railyard {

std::vector<std::string> stall_report(Simulation& simulation);

}  // namespace railyard
