// Max-min fair shares of one capacity: nobody gets more than it wants, and what one leaves is split among the others.
#pragma once

#include <algorithm>
#include <vector>

namespace railyard::gpu {

/// @return what each gets; sums to the capacity, or to all wants where those are less. It does not depend on their order.
inline std::vector<double> fair_shares(double capacity, const std::vector<double>& wants) {
  std::vector<double> sorted = wants;
  std::sort(sorted.begin(), sorted.end());
  // The level that fills the capacity: whoever wants less has all of it.
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
