// workload.routing of a training step: how tokens are dealt to experts.
#pragma once

#include <optional>

#include "sc_main/scenario/kinds/kind.h"
#include "transformer/routing.h"

namespace railyard::scenario {

nlohmann::json routing_schema();
/// @return none for the word `uniform`
std::optional<transformer::Routing> read_routing(const Node& node, const std::string& path);

}  // namespace railyard::scenario
