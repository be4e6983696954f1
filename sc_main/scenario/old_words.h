// Words that workload.engine has replaced: scheduler.preset, scheduler.library, host.preset, and the names that sheets of
// engines had before they had versions; and workload.handoff of serving, which is now workload.kv_transfer.mode. Scenarios with them
// are still read.
#pragma once

#include <string>
#include <vector>

#include "sc_main/scenario/table/node.h"

namespace railyard::scenario {

/// The scenario with the engine's name in place of old words. @param notes  a line for stderr is added if there were any
/// @throws InputError: an old word that is unknown, or that contradicts another one or workload.engine
NodePtr without_old_words(const NodePtr& root, std::vector<std::string>& notes);

}  // namespace railyard::scenario
