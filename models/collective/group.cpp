#include "collective/group.h"

#include <algorithm>
#include <set>

#include "transport/fabric.h"

namespace railyard::collective {

namespace {

/// Finds the nodes of the network that add, if there are any.
void add_sum_nodes(Group& group, const std::vector<gpu::Gpu*>& gpus) {
  const std::uint32_t each = group.members_per_server();
  if (group.servers() == 1 || each == 0) return;
  std::vector<std::vector<transport::Window>> nodes(group.size());
  std::set<const infiniband::Nic*> nics;  // of the first server
  for (std::uint32_t place = 0; place < each; ++place) {
    const auto number = static_cast<std::uint32_t>(nics.size());
    if (!nics.insert(gpus[place]->sum_path(number).nic).second) continue;
    for (std::uint32_t m = place; m < group.size(); m += each) nodes[m] = gpus[m]->sum_path(number).nodes;
    // The root is the first node that they have in common.
    const auto differ = [&](std::size_t tier) {
      for (std::uint32_t m = place; m < group.size(); m += each)
        if (nodes[m][tier] != nodes[place][tier]) return true;
      return false;
    };
    std::size_t tiers = 0;
    while (tiers < nodes[place].size() && differ(tiers)) ++tiers;
    if (tiers == nodes[place].size()) return;
    for (std::uint32_t m = place; m < group.size(); m += each) nodes[m].resize(tiers + 1);
  }
  group.sum_nodes = std::move(nodes);
}

}  // namespace

Group group_of(const std::vector<gpu::Gpu*>& gpus) {
  Group group;
  std::uint32_t server = 0;
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    if (i > 0 && gpus[i]->server() != gpus[i - 1]->server()) ++server;
    group.members.push_back(gpus[i]->window());
    group.server.push_back(server);
  }
  group.mesh = group.servers() == 1 && gpus.front()->mesh_links() != 0 &&
               std::all_of(gpus.begin() + 1, gpus.end(),
                           [&](const gpu::Gpu* gpu) { return gpus.front()->reaches_over_nvlink(gpu->window()); });
  add_sum_nodes(group, gpus);
  return group;
}

Group group_in_parts(const std::vector<gpu::Gpu*>& gpus, std::uint32_t parts) {
  Group group;
  const auto each = static_cast<std::ptrdiff_t>(gpus.size() / parts);
  for (auto first = gpus.begin(); first != gpus.end(); first += each) {
    Group& part = group.parts.emplace_back(group_of({first, first + each}));
    part.sum_nodes.clear();
    const std::uint32_t servers = group.members.empty() ? 0 : group.servers();
    group.members.insert(group.members.end(), part.members.begin(), part.members.end());
    for (const std::uint32_t server : part.server) group.server.push_back(servers + server);
  }
  return group;
}

Group folded_group_of(const std::vector<gpu::Gpu*>& gpus, const std::vector<FoldedMember>& members) {
  Group group;
  std::vector<std::uint32_t> existing(gpus.size());
  for (std::uint32_t m = 0; m < members.size(); ++m)
    if (members[m].exists) existing[members[m].gpu] = m;
  const bool copies_share_server = gpus.front()->reaches_over_nvlink(gpus.front()->window_beyond());
  std::uint32_t server = 0;
  for (std::uint32_t m = 0; m < members.size(); ++m) {
    const gpu::Gpu& gpu = *gpus[members[m].gpu];
    const bool other_copy = m > 0 && members[m].copy != members[m - 1].copy;
    if (m > 0 && (gpu.server() != gpus[members[m - 1].gpu]->server() || (other_copy && !copies_share_server))) ++server;
    group.members.push_back(members[m].exists ? gpu.window() : gpu.window_beyond());
    group.server.push_back(server);
    group.like.push_back(existing[members[m].gpu]);
    group.copy.push_back(members[m].copy);
    group.place.push_back(members[m].place);
    group.beyond.push_back(gpu.window_beyond());
  }
  return group;
}

void add_multicast_groups(Group& group, const std::vector<gpu::Gpu*>& gpus, transport::Fabric& fabric) {
  for (const gpu::Gpu* gpu : gpus)
    if (!gpu->multicasts()) return;
  std::vector<std::vector<transport::Window>> members(group.servers());
  std::vector<std::uint32_t> first(group.servers(), group.size());
  for (std::uint32_t m = group.size(); m-- > 0;) first[group.server_of(m)] = m;
  for (std::uint32_t m = 0; m < group.size(); ++m)
    if (group.exists(m)) members[group.server_of(m)].push_back(group.members[m]);
  group.multicast_group.resize(group.servers());
  for (std::uint32_t s = 0; s < group.servers(); ++s)
    if (group.exists(first[s])) group.multicast_group[s] = fabric.add_group(members[s]);
  for (std::uint32_t s = 0; s < group.servers(); ++s)
    if (!group.exists(first[s]))
      group.multicast_group[s] = group.multicast_group[group.server_of(group.like[first[s]])];
  auto of_part = group.multicast_group.begin();
  for (Group& part : group.parts) {
    part.multicast_group.assign(of_part, of_part + part.servers());
    of_part += part.servers();
  }
}

}  // namespace railyard::collective
