#include "collective/group.h"

#include "transport/fabric.h"

namespace railyard::collective {

Group group_of(const std::vector<gpu::Gpu*>& gpus) {
  Group group;
  std::uint32_t server = 0;
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    if (i > 0 && gpus[i]->server() != gpus[i - 1]->server()) ++server;
    group.members.push_back(gpus[i]->window());
    group.server.push_back(server);
  }
  return group;
}

void add_multicast_groups(Group& group, const std::vector<gpu::Gpu*>& gpus, transport::Fabric& fabric) {
  for (const gpu::Gpu* gpu : gpus)
    if (!gpu->multicasts()) return;
  std::vector<std::vector<transport::Window>> members(group.servers());
  for (std::uint32_t m = 0; m < group.size(); ++m) members[group.server_of(m)].push_back(group.members[m]);
  for (const std::vector<transport::Window>& of_server : members)
    group.multicast_group.push_back(fabric.add_group(of_server));
}

}  // namespace railyard::collective
