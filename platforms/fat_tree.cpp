#include "platforms/fat_tree.h"

#include <algorithm>
#include <numeric>

#include "infiniband/ecmp.h"
#include "platforms/machine.h"

namespace railyard::platforms {

std::uint32_t spines_of(const MachineSpec& spec) {
  if (spec.spines != 0) return spec.spines;
  const std::uint32_t nics = whole_servers_of(spec) * spec.nics_per_server;
  std::vector<std::uint32_t> below(leaf_of(spec, nics - 1) + 1);
  for (std::uint32_t n = 0; n < nics; ++n) ++below[leaf_of(spec, n)];
  return std::min(*std::max_element(below.begin(), below.end()), leaf_down_ports(spec));
}

std::uint64_t switch_ports(const MachineSpec& spec) {
  const std::uint32_t nics = whole_servers_of(spec) * spec.nics_per_server;
  if (spec.network == NetworkKind::single_switch) return nics;
  const std::uint64_t leaves = leaf_of(spec, nics - 1) + 1, spines = spines_of(spec);
  const std::uint64_t to_cores = spec.tiers == 3 ? (pod_of(spec, nics - 1) + 1) * spines * cores_of_spine(spec) : 0;
  return nics + 2 * (leaves * spines + to_cores);
}

FatTree::FatTree(const MachineSpec& spec, infiniband::Routing routing)
    : spec_(spec), routing_(routing), spines_(spines_of(spec)), cores_(spec.tiers == 3 ? cores_of_spine(spec) : 0) {}

std::vector<std::uint32_t> FatTree::choices(const NetworkMessage& message, std::uint32_t paths,
                                            std::uint32_t stride) const {
  if (routing_ == infiniband::Routing::deterministic) return {message.lid / stride % paths};
  if (routing_ == infiniband::Routing::ecmp)
    return {static_cast<std::uint32_t>(
        infiniband::ecmp_hash(spec_.seed, {message.lid, message.source, message.target, message.traffic_class}) %
        paths)};
  std::vector<std::uint32_t> all(paths);
  std::iota(all.begin(), all.end(), 0);
  return all;
}

std::vector<FatTree::Leg> FatTree::path(const NetworkMessage& message, Tier turns_at) const {
  const std::uint32_t from = leaf_of(spec_, message.from), to = leaf_of(spec_, message.to);
  const std::uint32_t pod = pod_of(spec_, message.from), to_pod = pod_of(spec_, message.to);
  if (from == to && turns_at == Tier::leaf) return {};
  const std::uint32_t neighbours = spec_.rail_optimized ? spec_.nics_per_server : 1;  // as Machine::route_network()
  std::vector<Leg> legs;
  const std::vector<std::uint32_t> spines = choices(message, spines_, neighbours);
  for (const std::uint32_t s : spines) {
    const double part = 1.0 / static_cast<double>(spines.size());
    legs.push_back({{Tier::spine, true, pod * spines_ + s, from}, part});
    legs.push_back({{Tier::spine, false, to_pod * spines_ + s, to}, part});
    if (pod == to_pod && turns_at != Tier::core) continue;
    const std::vector<std::uint32_t> cores = choices(message, cores_, neighbours * spines_);
    for (const std::uint32_t c : cores) {
      const double of_core = part / static_cast<double>(cores.size());
      legs.push_back({{Tier::core, true, s * cores_ + c, pod * spines_ + s}, of_core});
      legs.push_back({{Tier::core, false, s * cores_ + c, to_pod * spines_ + s}, of_core});
    }
  }
  return legs;
}

}  // namespace railyard::platforms
