// What policies share that compare a number of each instance.
#pragma once

#include <algorithm>

#include "base/random.h"
#include "workload/inference/routing/router_view.h"

namespace railyard::workload::inference {

/// The candidate with the least score; of several the first.
inline std::uint32_t least(const Candidates& candidates, const std::vector<double>& scores) {
  return candidates[static_cast<std::size_t>(std::min_element(scores.begin(), scores.end()) - scores.begin())];
}

/// One of the candidates with this score, at random. @pre there is one
inline std::uint32_t one_with(double score, const Candidates& candidates, const std::vector<double>& scores,
                              Random& random) {
  Candidates with;
  for (std::size_t i = 0; i < candidates.size(); ++i)
    if (scores[i] == score) with.push_back(candidates[i]);
  return with[random.below(with.size())];
}

}  // namespace railyard::workload::inference
