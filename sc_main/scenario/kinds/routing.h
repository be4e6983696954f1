// workload.routing of a training step, and workload.experts.routing of serving: how tokens are dealt to experts.
//
// A file has a line for each layer that routes: the number of the layer in the model, from 0, then the tokens that each of
// its experts got, in any unit. Lines that begin with # are comments.
#pragma once

#include <optional>
#include <string>

#include "sc_main/scenario/kinds/kind.h"
#include "transformer/routing.h"

namespace railyard::scenario {

inline constexpr const char* kRoutingType = "uniform, {skew, seed} or a CSV file";
nlohmann::json routing_schema();
/// @return none for the word `uniform` and for a file, whose name is given back in `file`
std::optional<transformer::Routing> read_routing(const Node& node, const std::string& path, std::string& file);
/// @param key  that names the file
/// @throws InputError, at the line of the file: no layer of the model that routes, a second line for it, another number of
/// experts, a share that a router cannot give; or a layer is missing
transformer::Routing traced_routing(const std::string& file, const std::string& key,
                                    const transformer::ModelShape& model, const Source& source);

}  // namespace railyard::scenario
