#include "collective/network_sums.h"

#include <algorithm>

namespace railyard::collective {

void NetworkSums::prepare(const Group& group, std::uint32_t threads) {
  nodes_.clear();
  trees_.clear();
  place_of_.clear();
  if (group.sum_nodes.empty()) return;
  const std::uint32_t each = group.members_per_server();
  trees_.resize(each);
  for (std::uint32_t m = 0; m < group.size(); ++m) {
    place_of_.push_back(m % each);
    transport::Window child = group.members[m];
    for (const transport::Window memory : group.sum_nodes[m]) {
      Tree& tree = trees_[m % each];
      nodes_.insert(memory);
      if (child != group.members[m]) tree[child].parent = memory;
      Node& node = tree[memory];
      node.sums.resize(threads);
      const bool known = std::any_of(node.children.begin(), node.children.end(),
                                     [&](const Child& other) { return other.memory == child; });
      if (!known) node.children.push_back({child, m, std::vector<std::uint32_t>(threads)});
      child = memory;
    }
  }
}

std::vector<NetworkSums::Next> NetworkSums::arrived(transport::Window from, transport::Window at, std::uint32_t member,
                                                    std::uint32_t thread) {
  Node& node = trees_[place_of_[member]].at(at);
  if (from != node.parent) {
    std::uint32_t complete = ~0u;
    for (Child& child : node.children) {
      if (child.memory == from) ++child.arrived[thread];
      complete = std::min(complete, child.arrived[thread]);
    }
    if (complete == node.sums[thread]) return {};
    ++node.sums[thread];
    if (node.parent != kNone) return {{at, node.parent, node.children.front().member}};
  }
  std::vector<Next> next;
  for (const Child& child : node.children) next.push_back({at, child.memory, child.member});
  return next;
}

}  // namespace railyard::collective
