// What policies share that compare a number of each instance.
#pragma once

#include <algorithm>

#include "workload/inference/routing/router_view.h"

namespace railyard::workload::inference {

/// The candidate with the least score; of several the first.
inline std::uint32_t least(const Candidates& candidates, const std::vector<double>& scores) {
  return candidates[static_cast<std::size_t>(std::min_element(scores.begin(), scores.end()) - scores.begin())];
}

}  // namespace railyard::workload::inference
