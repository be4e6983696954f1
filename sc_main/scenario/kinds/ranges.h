// A parameter that is a value, a list of values, or a range of values.
#pragma once

#include <cstdint>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "sc_main/scenario/table/record.h"

namespace railyard::scenario {

/// `number` gives the limits of each value.
std::vector<std::uint64_t> read_numbers(const Field& number, const Node& node, const std::string& path);
nlohmann::json numbers_schema(double least, double most);

}  // namespace railyard::scenario
