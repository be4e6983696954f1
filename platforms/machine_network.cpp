// The network between servers: one switch, or a fat tree of two or three tiers. Leaf, pod and core switches are built only
// where NICs that are built need them; with folding these are a part of the whole (BuiltPart).
#include <algorithm>
#include <map>

#include "platforms/fat_tree.h"
#include "platforms/link_direction.h"
#include "platforms/machine.h"
#include "transport/assembly.h"
#include "transport/faults.h"

namespace railyard::platforms {

namespace {

transport::PacketFormat network_format(const InfiniBandProtocol& p) {
  infiniband::Protocol protocol;
  protocol.mtu_bytes = whole(p.mtu_bytes);
  protocol.packet_overhead_bytes = whole(p.packet_overhead_bytes);
  protocol.first_overhead_bytes = whole(p.first_overhead_bytes);
  return protocol.packet_format();
}

}  // namespace

std::uint32_t leaf_down_ports(const MachineSpec& spec) { return std::max(1u, spec.ib_switch.ports / 2); }

std::uint32_t leaf_of(const MachineSpec& spec, std::uint32_t nic) {
  const std::uint32_t down_ports = leaf_down_ports(spec);
  if (!spec.rail_optimized) return nic / down_ports;
  const std::uint32_t rails = spec.nics_per_server;
  const auto leaves_per_rail = static_cast<std::uint32_t>(ceil_div(whole_servers_of(spec), down_ports));
  return nic % rails * leaves_per_rail + nic / rails / down_ports;
}

std::uint32_t pod_of(const MachineSpec& spec, std::uint32_t nic) {
  return spec.tiers == 3 ? leaf_of(spec, nic) / leaves_of_pod(spec) : 0;
}

std::uint32_t leaves_of_pod(const MachineSpec& spec) {
  return spec.pod_leaves != 0 ? spec.pod_leaves : leaf_down_ports(spec);
}

std::uint32_t cores_of_spine(const MachineSpec& spec) {
  if (spec.cores != 0) return spec.cores;
  return std::min(leaves_of_pod(spec), std::max(1u, spec.ib_switch.ports - leaves_of_pod(spec)));
}

transport::Lid Machine::lid_beyond(const infiniband::Nic& nic) const {
  const bool turns_above_leaf = spec_.part && spec_.part->turns_at != Tier::leaf;
  return turns_above_leaf ? lid_to_next_copy(nic.lid()) : nic.lid();
}

transport::LinkDirection Machine::to_switch() const {
  LinkDatasheet cable = spec_.ib_cable;
  cable.gb_per_s = std::min(cable.gb_per_s, spec_.nic.gb_per_s);
  return direction(cable, network_format(spec_.infiniband), spec_.ib_switch.hop_ns, spec_.ib_switch.buffer_bytes);
}

transport::LinkDirection Machine::to_nic() const {
  LinkDatasheet cable = spec_.ib_cable;
  cable.gb_per_s = std::min(cable.gb_per_s, spec_.nic.gb_per_s);
  return direction(cable, network_format(spec_.infiniband), spec_.nic.receive_ns, spec_.nic.buffer_bytes);
}

transport::LinkDirection Machine::between_switches() const {
  transport::LinkDirection between = to_switch();
  between.rate = Rate::gb_per_s(std::min(spec_.ib_switch.gb_per_s, spec_.ib_cable.gb_per_s));
  return between;
}

infiniband::IbSwitch& Machine::add_switch(const std::string& name) {
  network_.push_back(
      std::make_unique<infiniband::IbSwitch>(name.c_str(), fabric_.context(), spec_.routing, spec_.seed));
  return *network_.back();
}

void Machine::build_single_switch() {
  network_.push_back(std::make_unique<infiniband::IbSwitch>("ib0", fabric_.context()));
  infiniband::IbSwitch& sw = *network_.back();
  fabric_.add_device(sw);
  const transport::LinkDirection down = to_nic();
  for (infiniband::Nic* nic : nics_) {
    const PortId port = sw.add_port("port" + std::to_string(nic->lid()), down);
    transport::Device::connect(*nic, nic->add_port("network", to_switch()), sw, port);
    sw.decoder().map(nic->lid(), port);
  }
  if (spec_.sharp) add_sum_node(sw);
}

infiniband::AggregationNode& Machine::add_sum_node(infiniband::IbSwitch& at) {
  // LIDs after those of NICs, and those of NICs of the next copy.
  const transport::Lid lid =
      2 * whole_servers_of(spec_) * nics_per_server_ + static_cast<transport::Lid>(sum_nodes_.size());
  sum_nodes_.push_back(std::make_unique<infiniband::AggregationNode>(
      ("sharp_" + std::string(at.name())).c_str(), fabric_.context(), first_free_window(), lid,
      static_cast<const infiniband::AggregationNode::Directory&>(*this)));
  infiniband::AggregationNode& node = *sum_nodes_.back();
  // It adds at the rate of all ports at once.
  const LinkDatasheet inside{spec_.ib_switch.gb_per_s * spec_.ib_switch.ports, 0,
                             spec_.ib_switch.buffer_bytes * spec_.ib_switch.ports};
  const LinkDatasheet out{inside.gb_per_s, spec_.ib_switch.aggregation_ns, inside.buffer_bytes};
  const transport::PacketFormat packet = network_format(spec_.infiniband);
  const PortId port = at.add_port("sharp", direction(inside, packet, 0, inside.buffer_bytes));
  transport::Device::connect(node, node.add_port("network", direction(out, packet, 0, out.buffer_bytes)), at, port);
  at.decoder().map(lid, port);
  sum_node_of_[&at] = &node;
  fabric_.add_device(node);
  fabric_.add_sender(node.window(), node);
  return node;
}

void Machine::build_sum_nodes() {
  if (!spec_.sharp) return;
  const Pod& pod = pods_.front();  // two tiers
  for (std::uint32_t l = 0; l < pod.leaves.size(); ++l) {
    const transport::Lid lid = add_sum_node(*pod.leaves[l].device).lid();
    for (infiniband::IbSwitch* spine : pod.spines) spine->decoder().map(lid, PortId(l));
  }
  for (std::uint32_t s = 0; s < pod.spines.size(); ++s) {
    const transport::Lid lid = add_sum_node(*pod.spines[s]).lid();
    for (const Leaf& leaf : pod.leaves)
      leaf.device->decoder().map(lid, PortId(static_cast<std::uint32_t>(leaf.nics.size()) + s));
  }
}

transport::Lid Machine::lid_of(transport::Window memory) const {
  return is_sum(memory) ? sum_nodes_[memory - first_sum()]->lid() : nics_[nic_of(GpuId(memory))]->lid();
}

gpu::EgressPolicy::SumPath Machine::sum_path(transport::Window source, std::uint32_t number) const {
  SumPath path;
  path.nic = nics_[nic_of(GpuId(source))];
  if (!spec_.sharp) return path;
  path.nodes.push_back(sum_node_of_.at(path.nic->port(PortId(infiniband::Nic::kNetworkPort)).peer)->window());
  if (pods_.empty()) return path;
  const std::vector<infiniband::IbSwitch*>& spines = pods_.front().spines;
  path.nodes.push_back(sum_node_of_.at(spines[number % spines.size()])->window());
  return path;
}

void Machine::build_fat_tree() {
  const std::uint32_t all = whole_servers_of(spec_) * nics_per_server_;
  std::vector<std::size_t> nics_below(leaf_of(spec_, all - 1) + 1);
  std::vector<std::size_t> place_below;  // of a NIC at its leaf
  for (std::uint32_t n = 0; n < all; ++n) place_below.push_back(nics_below[leaf_of(spec_, n)]++);
  const std::uint32_t spines = spines_of(spec_);

  std::map<std::uint32_t, std::vector<infiniband::Nic*>> below;   // by leaf
  std::map<std::uint32_t, std::vector<std::uint32_t>> leaves_in;  // by pod
  for (infiniband::Nic* nic : nics_) below[leaf_of(spec_, nic->lid())].push_back(nic);
  for (const auto& [leaf, nics] : below) leaves_in[pod_of(spec_, nics.front()->lid())].push_back(leaf);
  for (const auto& [pod, leaves] : leaves_in) {
    pods_.emplace_back().number = pod;
    for (std::uint32_t s = 0; s < spines; ++s)
      pods_.back().spines.push_back(&add_switch("spine" + std::to_string(pod * spines + s)));
  }
  std::uint32_t pod = 0;
  for (const auto& [number, leaves] : leaves_in) {
    for (const std::uint32_t leaf : leaves) build_leaf(leaf, below[leaf], place_below, pods_[pod]);
    ++pod;
  }
  if (spec_.tiers == 3) build_cores();
  map_lids();
  route_network();
  for (auto& device : network_) fabric_.add_device(*device);
  build_sum_nodes();
}

void Machine::build_leaf(std::uint32_t number, const std::vector<infiniband::Nic*>& nics,
                         const std::vector<std::size_t>& place_below, Pod& pod) {
  infiniband::IbSwitch& leaf = add_switch("leaf" + std::to_string(number));
  pod.leaves.push_back({&leaf, nics});
  for (infiniband::Nic* nic : nics) {
    const PortId port = leaf.add_port("port" + std::to_string(place_below[nic->lid()]), to_nic());
    transport::Device::connect(*nic, nic->add_port("network", to_switch()), leaf, port);
    leaf.decoder().map(nic->lid(), port);
  }
  const auto spines = static_cast<std::uint32_t>(pod.spines.size());
  for (std::uint32_t s = 0; s < spines; ++s)
    join(leaf, "up" + std::to_string(s), *pod.spines[s], "port" + std::to_string(number),
         {Tier::spine, true, pod.number * spines + s, number}, false);
}

void Machine::build_cores() {
  const std::uint32_t cores = cores_of_spine(spec_);
  const auto spines = static_cast<std::uint32_t>(pods_.front().spines.size());
  for (std::uint32_t s = 0; s < spines; ++s)
    for (std::uint32_t c = 0; c < cores; ++c) {
      infiniband::IbSwitch& core = add_switch("core" + std::to_string(s * cores + c));
      cores_.push_back(&core);
      for (std::uint32_t p = 0; p < pods_.size(); ++p)
        join(*pods_[p].spines[s], "up" + std::to_string(c), core, "port" + std::to_string(p),
             {Tier::core, true, s * cores + c, pods_[p].number * spines + s}, false);
    }
}

void Machine::join(infiniband::IbSwitch& lower, const std::string& up, infiniband::IbSwitch& upper,
                   const std::string& down, Trunk trunk, bool to_next_copy) {
  const transport::LinkDirection between = between_switches();
  const PortId up_port = lower.add_port(up, between), down_port = upper.add_port(down, between);
  transport::Device::connect(lower, up_port, upper, down_port);
  trunk.up = true;
  trunks_.push_back({trunk, to_next_copy, {&lower, up_port}});
  trunk.up = false;
  trunks_.push_back({trunk, to_next_copy, {&upper, down_port}});
}

// As many links again, in the same order.
void Machine::separate_paths_to_next_copy() {
  const std::vector<BuiltTrunk> own = trunks_;
  for (std::size_t t = 0; t < own.size(); t += 2) {
    const auto next = [&](const transport::LinkEnd& end) { return "next_" + end.state().name; };
    join(static_cast<infiniband::IbSwitch&>(*own[t].link.device), next(own[t].link),
         static_cast<infiniband::IbSwitch&>(*own[t + 1].link.device), next(own[t + 1].link), own[t].trunk, true);
  }
  next_parted_ = true;
  map_lids();
  route_network();
}

// Messages to the next copy turn around in a higher tier: switches below have a group and a port for their LIDs. If their ways
// are parted, their groups are numbered after all others.
void Machine::map_lids() {
  const Tier turns_at = spec_.part ? spec_.part->turns_at : Tier::leaf;
  const auto pods = static_cast<std::uint32_t>(pods_.size());
  const std::uint32_t leaves = built_leaves();
  std::uint32_t far_leaf = 0;
  for (std::uint32_t q = 0; q < pods; ++q) {
    for (std::uint32_t m = 0; m < pods_[q].leaves.size(); ++m, ++far_leaf) {
      const Leaf& to = pods_[q].leaves[m];
      for (const infiniband::Nic* nic : to.nics) {
        const PortId at_leaf = to.device->decoder().find(nic->lid());
        for (const transport::Lid lid : {nic->lid(), lid_beyond(*nic)}) {
          const bool turns = lid != nic->lid(), next = turns && next_parted_;
          for (std::uint32_t p = 0; p < pods; ++p) {
            for (Leaf& from : pods_[p].leaves)
              if (from.device != to.device || turns) from.device->map_to_group(lid, far_leaf + (next ? leaves : 0));
            for (infiniband::IbSwitch* spine : pods_[p].spines)
              if (p != q || (turns && turns_at == Tier::core)) spine->map_to_group(lid, q + (next ? pods : 0));
          }
          to.device->decoder().map(lid, at_leaf);
          for (infiniband::IbSwitch* spine : pods_[q].spines)
            spine->decoder().map(lid, PortId(m + (next ? ports_of_spine(q) : 0)));
          for (infiniband::IbSwitch* core : cores_) core->decoder().map(lid, PortId(q + (next ? pods : 0)));
        }
      }
      if (turns_at != Tier::leaf) to.device->let_turn_around();
    }
    for (infiniband::IbSwitch* spine : pods_[q].spines)
      if (turns_at == Tier::core) spine->let_turn_around();
  }
}

void Machine::route_network() {
  route_network(false);
  if (next_parted_) route_network(true);
}

// A path up is chosen by the place of a NIC among those that share the path's leaf or pod, so that neighbours take
// different paths.
void Machine::route_network(bool next) {
  const auto open = [](const transport::Device& device, std::size_t port) {
    return !device.port(PortId(static_cast<std::uint32_t>(port))).egress.failed();
  };
  const std::size_t spines = pods_.empty() ? 0 : pods_.front().spines.size();
  const std::size_t cores = spines == 0 ? 0 : cores_.size() / spines;  // of a spine
  const std::uint32_t neighbours = spec_.rail_optimized ? nics_per_server_ : 1;
  const std::size_t pods = next ? pods_.size() : 0, leaves = next ? built_leaves() : 0;
  const auto at_spine = [&](std::size_t p) { return next ? ports_of_spine(p) : 0; };
  /// Ports of spine s of pod p to the cores from which pod q is reached.
  const auto paths = [&](std::size_t s, std::size_t p, std::size_t q) {
    std::vector<PortId> up;
    for (std::size_t c = 0; c < cores; ++c) {
      const std::size_t port = at_spine(p) + pods_[p].leaves.size() + c;
      if (open(*pods_[p].spines[s], port) && open(*cores_[s * cores + c], pods + q))
        up.push_back(PortId(static_cast<std::uint32_t>(port)));
    }
    return up;
  };
  const Tier turns_at = spec_.part ? spec_.part->turns_at : Tier::leaf;
  for (std::size_t p = 0; p < pods_.size(); ++p) {
    std::vector<std::vector<bool>> reaches(spines, std::vector<bool>(pods_.size()));  // pod q over spine s
    for (std::size_t s = 0; s < spines; ++s) {
      pods_[p].spines[s]->set_stride(neighbours * static_cast<std::uint32_t>(spines));
      for (std::size_t q = 0; q < pods_.size() && cores > 0; ++q) {
        std::vector<PortId> up = paths(s, p, q);
        reaches[s][q] = !up.empty();
        if (q != p || turns_at == Tier::core)
          pods_[p].spines[s]->set_group(static_cast<std::uint32_t>(pods + q), std::move(up));
      }
    }
    for (Leaf& from : pods_[p].leaves) {
      from.device->set_stride(neighbours);
      std::size_t far_leaf = leaves;
      for (std::size_t q = 0; q < pods_.size(); ++q)
        for (std::size_t m = 0; m < pods_[q].leaves.size(); ++m, ++far_leaf) {
          const bool itself = pods_[q].leaves[m].device == from.device;
          if (itself && turns_at == Tier::leaf) continue;
          std::vector<PortId> up;
          for (std::size_t s = 0; s < spines; ++s) {
            const std::size_t port = from.nics.size() + (next ? spines : 0) + s;
            const bool over_core = p != q || ((itself || next) && turns_at == Tier::core);
            if (open(*from.device, port) && open(*pods_[q].spines[s], at_spine(q) + m) && (!over_core || reaches[s][q]))
              up.push_back(PortId(static_cast<std::uint32_t>(port)));
          }
          from.device->set_group(static_cast<std::uint32_t>(far_leaf), std::move(up));
        }
    }
  }
}

std::uint32_t Machine::built_leaves() const {
  std::size_t leaves = 0;
  for (const Pod& pod : pods_) leaves += pod.leaves.size();
  return static_cast<std::uint32_t>(leaves);
}

std::uint32_t Machine::ports_of_spine(std::size_t pod) const {
  const std::size_t cores = cores_.size() / pods_[pod].spines.size();
  return static_cast<std::uint32_t>(pods_[pod].leaves.size() + cores);
}

}  // namespace railyard::platforms
