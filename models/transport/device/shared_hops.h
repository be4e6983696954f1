// Links that several lanes of a path share: lanes over the NICs of one GPU all cross its PCIe link.
#pragma once

#include <algorithm>

#include "transport/device/path.h"

namespace railyard::transport {

inline bool same_link(const Hop& a, const Hop& b) { return a.device == b.device && a.port == b.port; }

inline bool crosses(const Lane& lane, const Hop& link) {
  return std::any_of(lane.hops.begin(), lane.hops.end(), [&](const Hop& hop) { return same_link(hop, link); });
}

/// Whether lanes may share links. Planes of NVSwitches begin at ports of their own.
inline bool share_hops(const Path& path) {
  return path.lanes.size() > 1 && same_link(path.lanes[0].hops.front(), path.lanes[1].hops.front());
}

/// Sum of the weights of the lanes that cross a link of `lane`.
inline std::uint64_t weight_on(const Path& path, const Lane& lane, const Hop& link) {
  if (!share_hops(path)) return lane.weight;
  std::uint64_t sum = 0;
  for (const Lane& other : path.lanes)
    if (crosses(other, link)) sum += other.weight;
  return sum;
}

}  // namespace railyard::transport
