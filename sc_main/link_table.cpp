#include "sc_main/link_table.h"

#include <fmt/format.h>
#include <algorithm>
#include <cctype>
#include <map>

namespace railyard {

namespace {

class Namer {
 public:
  explicit Namer(Simulation& simulation)
      : machine_(simulation.machine()), modules_(simulation.modules()), rank_(simulation.workload().rank_names()) {}

  std::vector<LinkRow> rows() {
    for (std::uint32_t g = 0; g < machine_.gpus(); ++g) add_gpu(GpuId(g));
    for (std::uint32_t n = 0; n < machine_.nics(); ++n) add_nic(NicId(n));
    for (const auto& server : machine_.servers()) add_server(*server);
    for (const auto& pair : machine_.far_pairs()) add_far_pair(pair);
    for (const auto& device : machine_.network()) add_cables_down(*device);
    for (const auto& node : machine_.sum_nodes()) add_sum_node(*node);
    for (const transport::Endpoint* adapter : modules_.adapters())
      both("Module", fmt::format("Module_{}", adapter->name()), *adapter, PortId(0));
    return std::move(rows_);
  }

 private:
  /// A group's initial, or its name where two groups share it.
  std::string letter(std::uint32_t group) const {
    const auto& groups = machine_.spec().groups;
    const char initial = groups[group].name[0];
    if (std::count_if(groups.begin(), groups.end(), [&](const auto& g) { return g.name[0] == initial; }) > 1)
      return groups[group].name;
    return std::string(1, static_cast<char>(std::toupper(initial)));
  }
  std::string gpu_name(GpuId id) const {
    const platforms::GpuPlace& place = machine_.place(id);
    const auto rank = rank_.find(id);
    // A GPU without a rank keeps its number in the group.
    return letter(place.group) + (rank != rank_.end() ? rank->second : fmt::format("_Idle[{}]", place.index_in_group));
  }
  void both(const std::string& kind, const std::string& name, const transport::Device& device, PortId port) {
    const transport::Device::Port& from = device.port(port);
    // A GPU's links belong to the switches that it is on, a socket's memory to its root complex, a network cable to its switch.
    const bool peers = dynamic_cast<const gpu::Gpu*>(&device) != nullptr ||
                       dynamic_cast<const pcie::HostMemory*>(&device) != nullptr ||
                       dynamic_cast<const infiniband::IbSwitch*>(from.peer) != nullptr;
    const transport::Device* const home =
        peers && dynamic_cast<const gpu::Gpu*>(from.peer) == nullptr ? from.peer : &device;
    rows_.push_back({kind, name, "tx", &device, port, home, nullptr, {}});
    rows_.push_back({kind, name, "rx", from.peer, from.peer_port, home, nullptr, {}});
  }
  void add_gpu(GpuId id) {
    const gpu::Gpu& gpu = machine_.gpu(id);
    const std::string protocol = machine_.spec().board.c2c ? "_C2C" : "_PCI";
    both("GPU" + protocol, "GPU_" + gpu_name(id) + protocol, gpu, gpu.pcie());
    const platforms::GroupSpec& group = machine_.spec().groups[machine_.place(id).group];
    if (group.nvlink_mesh != 0) {
      add_mesh(id, group);
      return;
    }
    for (std::uint32_t plane = 0; plane < group.nvlink_planes.size(); ++plane)
      both("NVLink", fmt::format("NVLink_{}_Plane[{}]", gpu_name(id), plane), gpu, gpu.nvlink(plane));
  }
  /// Each link once. The link of two cards is their bridge.
  void add_mesh(GpuId id, const platforms::GroupSpec& group) {
    const gpu::Gpu& gpu = machine_.gpu(id);
    const std::uint32_t slot = machine_.place(id).slot;
    for (std::uint32_t other = slot + 1; platforms::in_one_mesh(group, slot, other); ++other) {
      const PortId port = gpu.nvlink(platforms::plane_to(group, slot, other));
      if (machine_.spec().board.nvlink_mesh) {
        both("NVLink_Mesh", fmt::format("NVLink_{}_{}", gpu_name(id), gpu_name(GpuId(id.value() + other - slot))), gpu,
             port);
      } else {
        both("NVLink_Bridge", "NVLink_" + gpu_name(id) + "_Bridge", gpu, port);
      }
    }
  }
  void add_nic(NicId id) {
    const std::string number = fmt::format("{}[{}]", letter(machine_.group_of(id)), machine_.index_in_group(id));
    both("IB_NIC_PCI", "IB_NIC_" + number + "_PCI", machine_.nic(id), PortId(infiniband::Nic::kPciePort));
    both("IB_Cable", "IB_Cable_" + number, machine_.nic(id), PortId(infiniband::Nic::kNetworkPort));
  }
  void add_server(const platforms::Server& server) {
    const platforms::GpuPlace& place = machine_.place(GpuId(server.gpus.front()->window()));
    const std::uint32_t in_group = place.index_in_group / machine_.spec().board.gpus;
    const std::string group = letter(place.group);
    for (std::uint32_t s = 0; s < server.plx.size(); ++s)
      for (std::uint32_t p = 0; p < server.plx[s]->ports(); ++p)
        if (server.plx[s]->port(PortId(p)).name == "uplink")
          both("PLX_Uplink", fmt::format("PLX_Uplink_{}[{}]", group, in_group * server.plx.size() + s), *server.plx[s],
               PortId(p));
    for (std::uint32_t r = 0; r < server.roots.size(); r += 2)  // each pair once
      for (std::uint32_t p = 0; p < server.roots[r]->ports(); ++p)
        if (server.roots[r]->port(PortId(p)).name == "socket")
          both("Socket", fmt::format("Socket_{}[{}]", group, (in_group * server.roots.size() + r) / 2),
               *server.roots[r], PortId(p));
    for (std::uint32_t s = 0; s < server.hosts.size(); ++s)
      both("Host_Memory", fmt::format("Host_Memory_{}[{}]", group, in_group * server.hosts.size() + s),
           *server.hosts[s], PortId(0));
  }
  void add_far_pair(const platforms::Machine::FarPair& pair) {
    const auto port = [&](GpuId id) { return fmt::format("{}.pcie", machine_.gpu(id).name()); };
    rows_.push_back({"Far_Peers", fmt::format("Far_Peers_{}_{}", gpu_name(pair.one), gpu_name(pair.other)), "both",
                     nullptr, PortId(), nullptr, pair.meter, port(pair.one) + " " + port(pair.other)});
  }
  /// Cables from a switch down to the next tier: each cable once, from its upper end.
  void add_cables_down(const infiniband::IbSwitch& device) {
    struct Tiers {
      std::string upper, lower;   // in names of devices
      const char *above, *below;  // in names of links
    };
    for (const Tiers& t : {Tiers{"spine", "leaf", "Spine", "Leaf"}, {"core", "spine", "Core", "Spine"}}) {
      const std::string name = device.name();
      if (name.rfind(t.upper, 0) != 0) continue;
      for (std::uint32_t p = 0; p < device.ports(); ++p) {
        const std::string peer = device.port(PortId(p)).peer->name();
        if (peer.rfind(t.lower, 0) != 0) continue;
        const char* const next = device.port(PortId(p)).name.rfind("next_", 0) == 0 ? "Next_" : "";
        both(fmt::format("IB_{}{}_{}", next, t.above, t.below),
             fmt::format("IB_{}{}[{}]_{}[{}]", next, t.above, name.substr(t.upper.size()), t.below,
                         peer.substr(t.lower.size())),
             device, PortId(p));
      }
    }
  }

  void add_sum_node(const infiniband::AggregationNode& node) {
    const PortId port(infiniband::AggregationNode::kNetworkPort);
    both("SHARP", fmt::format("SHARP_{}", node.port(port).peer->name()), node, port);
  }

  platforms::Machine& machine_;
  const UserModules& modules_;
  const std::map<GpuId, std::string> rank_;
  std::vector<LinkRow> rows_;
};

}  // namespace

std::string LinkRow::port_name() const {
  return meter != nullptr ? meter_name : fmt::format("{}.{}", device->name(), device->port(port).name);
}

transport::LinkDirection LinkRow::link() const {
  if (meter == nullptr) return device->port(port).egress.link();
  transport::LinkDirection link;
  link.rate = meter->rate();
  return link;
}

std::vector<LinkRow> link_table(Simulation& simulation) { return Namer(simulation).rows(); }

}  // namespace railyard
