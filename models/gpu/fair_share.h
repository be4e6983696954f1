// Max-min fair shares of one capacity: no share exceeds its demand, and unused capacity is split among the other
// demands.
#pragma once

#include <algorithm>
#include <vector>

namespace railyard::gpu {

/// @return the share of each demand. The shares sum to the capacity, or to all demands if these are less. The order of
/// the demands does not matter.
inline std::vector<double> fair_shares(double capacity, const std::vector<double>& wants) {
  std::vector<double> sorted = wants;
  std::sort(sorted.begin(), sorted.end());
  // The level that fills the capacity: a demand below the level is met completely.
  double level = capacity, left = capacity;
  std::size_t open = sorted.size();
  for (const double want : sorted) {
    level = left / static_cast<double>(open);
    if (want > level) break;
    left -= want;
    --open;
    level = want;
  }
  if (open == 0) return wants;
  std::vector<double> shares;
  for (const double want : wants) shares.push_back(std::min(want, level));
  return shares;
}

}  // namespace railyard::gpu
