// The tables of metrics in docs/results.md, from the declarations of the metrics.
#pragma once

#include <string>

namespace railyard {

/// The page with the current tables. The table of a kind stands between the lines "<!-- metrics of KIND -->" and
/// "<!-- end of metrics -->".
/// @throws std::runtime_error if the page does not have a place for the table of each kind
std::string with_metric_tables(const std::string& page);

}  // namespace railyard
