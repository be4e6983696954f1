// What joins the members of a group, as NCCL's plan counts it: site_of() of tuner.h.
#include <algorithm>
#include <set>

#include "collective/tuner.h"
#include "gpu/datasheet.h"
#include "infiniband/nic.h"
#include "pcie/pcie.h"
#include "transport/device/spread.h"
#include "transport/fabric.h"

namespace railyard::collective {

namespace {

/// What lies between the members of a server that NVLink does not join.
void look_at_pcie(Site& site, const std::vector<gpu::Gpu*>& gpus, const Group& group, const transport::Fabric& fabric) {
  std::uint32_t linked_groups = 0;
  std::vector<bool> counted(gpus.size());
  for (std::uint32_t a = 0; a < group.size() && group.server_of(a) == 0; ++a) {
    bool linked = false;
    for (std::uint32_t b = a + 1; b < group.size() && group.server_of(b) == 0; ++b) {
      if (gpus[a]->reaches_over_nvlink(group.members[b])) {
        linked = counted[b] = true;
        continue;
      }
      std::set<const transport::Device*> roots;
      const transport::Path path = fabric.path(group.members[a], group.members[b], 0);
      const transport::Hop* last = nullptr;
      if (path.lanes.empty()) continue;  // a link has failed, and no other way is left
      for (const transport::Hop& hop : path.lanes.front().hops) {
        if (dynamic_cast<const pcie::RootComplex*>(hop.device) != nullptr && roots.insert(hop.device).second &&
            roots.size() == 1 && last != nullptr)
          site.root_gb_per_s = last->link().rate.gb_per_s();
        last = &hop;
      }
      site.roots = std::max(site.roots, static_cast<std::uint32_t>(roots.size()));
    }
    linked_groups += linked && !counted[a] ? 1 : 0;
  }
  site.halves = linked_groups == 2;
}

}  // namespace

Site site_of(const std::vector<gpu::Gpu*>& gpus, const Group& group, const transport::Fabric& fabric) {
  Site site;
  site.gpu = &gpus.front()->datasheet();
  site.ranks = group.size();
  site.servers = group.servers();
  site.nvlink = group.size() > 1;
  for (std::uint32_t m = 1; m < group.size(); ++m)
    if (group.server_of(m) == 0) site.nvlink = site.nvlink && gpus[0]->reaches_over_nvlink(group.members[m]);
  site.mesh_links = site.nvlink ? gpus.front()->mesh_links() : 0;
  for (std::uint32_t m = 0; m < group.size() && group.server_of(m) == 0; ++m) site.heads += group.is_head(m) ? 1 : 0;
  site.multicast = !group.multicast_group.empty();
  site.cpu = gpus.front()->cpu();
  if (!site.nvlink) look_at_pcie(site, gpus, group, fabric);
  std::set<const transport::Device*> nics;  // of the senders
  for (std::uint32_t m = 0; m < group.size() && site.servers > 1 && group.server_of(m) == 0; ++m) {
    transport::Message message;
    message.source = group.members[m];
    message.destination = group.members.back();
    message.queue_pair = transport::kSpreadOverNics;
    for (const transport::Lane& lane : gpus[m]->path_of(message).lanes) {
      const auto nic = std::find_if(lane.hops.begin(), lane.hops.end(), [](const transport::Hop& hop) {
        return dynamic_cast<const infiniband::Nic*>(hop.device) != nullptr;
      });
      if (nic != lane.hops.end()) nics.insert(nic->device);
      site.network_gb_per_s = lane.hops.front().link().rate.gb_per_s();
      for (const transport::Hop& hop : lane.hops)
        site.network_gb_per_s = std::min(site.network_gb_per_s, hop.link().rate.gb_per_s());
    }
  }
  site.nics = std::max<std::uint32_t>(1, static_cast<std::uint32_t>(nics.size()));
  return site;
}

}  // namespace railyard::collective
