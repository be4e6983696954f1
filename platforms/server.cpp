#include <algorithm>

#include "platforms/link_direction.h"
#include "platforms/machine.h"
#include "transport/assembly.h"

namespace railyard::platforms {

namespace {

transport::PacketFormat pcie_format(const MachineSpec& spec) {
  const PcieProtocol& p = spec.pcie;
  pcie::Protocol protocol;
  protocol.write_overhead_bytes = whole(p.write_overhead_bytes);
  protocol.read_request_bytes = whole(p.read_request_bytes);
  protocol.completion_overhead_bytes = whole(p.completion_overhead_bytes);
  protocol.max_payload_bytes = whole(p.max_payload_bytes);
  protocol.max_read_request_bytes = whole(p.max_read_request_bytes);
  protocol.dllp_interval_bytes = whole(p.dllp_interval_bytes);
  protocol.dllp_bytes = whole(p.dllp_bytes);
  protocol.credit_unit_bytes = whole(spec.pcie_credits.unit_bytes);
  return protocol.packet_format();
}

/// Packet format of the link between a GPU and its PCIe switch or socket.
transport::PacketFormat host_format(const MachineSpec& spec) {
  if (!spec.board.c2c) return pcie_format(spec);
  transport::PacketFormat format;
  format.max_payload_bytes = format.max_read_request_bytes = format.response_payload_bytes = whole(spec.c2c.line_bytes);
  format.overhead_bytes = format.read_request_bytes = format.response_overhead_bytes = whole(spec.c2c.overhead_bytes);
  return format;
}

/// From a device of a branch to its PCIe switch, or to the socket if the board has no PCIe switch.
transport::LinkDirection to_branch(const MachineSpec& spec, const LinkDatasheet& link,
                                   const transport::PacketFormat& packet) {
  return spec.board.pcie_switches != 0
             ? direction(link, packet, spec.plx.hop_ns, spec.plx.buffer_bytes)
             : direction(link, packet, spec.root_complex.hop_ns, spec.root_complex.buffer_bytes);
}

transport::PacketFormat nvlink_format(const NvLinkProtocol& p) {
  nvlink::Protocol protocol;
  protocol.flit_bytes = whole(p.flit_bytes);
  protocol.header_flits = whole(p.header_flits);
  protocol.request_flits = whole(p.request_flits);
  protocol.response_flits = whole(p.response_flits);
  protocol.writes_per_response = whole(p.writes_per_response);
  protocol.flits_per_link_flit = whole(p.flits_per_link_flit);
  protocol.max_payload_bytes = whole(p.copy_engine_payload_bytes);
  protocol.read_payload_bytes = whole(p.read_payload_bytes);
  protocol.reduced_payload_bytes = whole(p.reduced_payload_bytes);
  protocol.max_request_bytes = whole(std::max(p.sm_request_bytes, p.copy_engine_request_bytes));
  return protocol.packet_format();
}

}  // namespace

Server::Server(sc_core::sc_module_name name, const MachineSpec& spec, std::uint32_t group, std::uint32_t server,
               transport::Assembly& fabric, const gpu::EgressPolicy& policy)
    : sc_module(name) {
  const std::uint32_t first_gpu = server * spec.board.gpus, first_nic = server * spec.nics_per_server;
  const transport::Lid first_lid = number_in_whole(spec, server) * spec.nics_per_server;
  transport::FabricContext& context = fabric.context();
  const GroupSpec& group_spec = spec.groups[group];
  const PcieProtocol& pcie = spec.pcie;
  const NvLinkProtocol& nvlink = group_spec.nvlink_protocol;

  gpu::Gpu::Config config;
  config.datasheet = &group_spec.gpu;
  config.server = server;
  config.cpu = spec.board.cpu;
  config.nvlink_planes = group_spec.nvlink_planes;
  config.nvlink_rate = Rate::gb_per_s(group_spec.nvlink.gb_per_s);
  config.nvlink =
      group_spec.nvlink_mesh != 0
          ? direction(group_spec.nvlink, nvlink_format(nvlink), 0, group_spec.nvlink.buffer_bytes)
          : direction(group_spec.nvlink, nvlink_format(nvlink), spec.nvswitch.hop_ns, spec.nvswitch.buffer_bytes);
  config.stripe_bytes = std::max<Bytes>(1, whole(nvlink.interleave_bytes));
  config.sm = {whole(nvlink.sm_store_payload_bytes), whole(nvlink.sm_request_bytes)};
  config.copy_engine = {whole(nvlink.copy_engine_payload_bytes), whole(nvlink.copy_engine_request_bytes)};
  config.mesh_gpus = group_spec.nvlink_mesh;
  config.groups = group_spec.nvlink_mesh == 0 && spec.nvswitch.reduction_slots > 0;
  if (!spec.board.c2c) {
    config.pcie_write_bytes = whole(pcie.gpu_payload_bytes);
    config.pcie_reads.request_bytes = whole(pcie.gpu_read_request_bytes);
    config.pcie_reads.read_bytes = whole(pcie.gpu_read_tags * pcie.gpu_read_request_bytes);
  }
  config.pcie = to_branch(spec, group_spec.gpu_pcie, host_format(spec));
  for (std::uint32_t slot = 0; slot < spec.board.gpus; ++slot) {
    config.beyond = first_beyond_of(spec) + first_gpu + slot;
    gpus.push_back(
        std::make_unique<gpu::Gpu>(("gpu" + std::to_string(slot)).c_str(), context, first_gpu + slot, config, policy));
    fabric.add_device(*gpus.back());
    fabric.add_sender(first_gpu + slot, *gpus.back());
  }

  infiniband::NicTiming timing;
  timing.inline_bytes = whole(spec.nic.inline_bytes);
  timing.doorbell = Time::nanoseconds(spec.nic.doorbell_ns);
  timing.transmit = Time::nanoseconds(spec.nic.transmit_ns);
  timing.read_bytes = whole(spec.nic.read_tags * pcie.max_read_request_bytes);
  timing.buffer_bytes = whole(spec.nic.buffer_bytes);
  for (std::uint32_t n = 0; n < spec.nics_per_server; ++n) {
    nics.push_back(std::make_unique<infiniband::Nic>(("nic" + std::to_string(n)).c_str(), context,
                                                     windows_of_gpus(spec) + first_nic + n, first_lid + n, timing));
    nics.back()->add_port("pcie", to_branch(spec, spec.nic_pcie, pcie_format(spec)));
    fabric.add_device(*nics.back());
  }
  for (std::uint32_t s = 0; s < spec.board.pcie_switches; ++s) {
    plx.push_back(std::make_unique<pcie::PlxSwitch>(("plx" + std::to_string(s)).c_str(), context, spec.acs));
    fabric.add_device(*plx.back());
  }
  for (std::uint32_t s = 0; s < spec.board.sockets; ++s) {
    roots.push_back(std::make_unique<pcie::RootComplex>(("root" + std::to_string(s)).c_str(), context));
    fabric.add_device(*roots.back());
  }
  for (std::uint32_t s = 0; s < group_spec.nvlink_planes.size() && group_spec.nvlink_mesh == 0; ++s) {
    nvswitches.push_back(std::make_unique<nvlink::NvSwitch>(("nvswitch" + std::to_string(s)).c_str(), context));
    fabric.add_device(*nvswitches.back());
  }
  build_pcie(spec, group_spec);
  build_nvlink(spec, group_spec);
  build_uplinks(spec);
  join_sockets(spec);
  build_hosts(spec, server, fabric);
  if (!spec.part) return;
  for (const auto& gpu : gpus) {
    for (auto& s : plx) s->decoder().map_beside(gpu->window_beyond(), gpu->window());
    for (auto& root : roots) root->decoder().map_beside(gpu->window_beyond(), gpu->window());
    for (auto& s : nvswitches) s->decoder().map_beside(gpu->window_beyond(), gpu->window());
  }
}

template <class OnGpu, class OnNic>
void Server::for_each_at(const MachineSpec& spec, std::uint32_t branch, const OnGpu& on_gpu,
                         const OnNic& on_nic) const {
  const std::uint32_t gpus_each = spec.board.gpus / branches_of(spec.board);
  for (std::uint32_t g = branch * gpus_each; g < (branch + 1) * gpus_each; ++g) on_gpu(*gpus[g]);
  for (std::uint32_t n = first_nic_at(spec, branch); n < first_nic_at(spec, branch + 1); ++n) on_nic(*nics[n]);
}

void Server::build_pcie(const MachineSpec& spec, const GroupSpec& group_spec) {
  const auto join = [&](transport::Switch& sw, transport::Endpoint& end, PortId end_port, const LinkDatasheet& link,
                        const transport::PacketFormat& packet) {
    transport::LinkDirection down = direction(link, packet, 0, link.buffer_bytes);
    down.sinks_responses =
        !spec.board.c2c || &link == &spec.nic_pcie;  // PCIe: an endpoint has room for the completions of its requests
    const PortId port = sw.add_port("port" + std::to_string(sw.ports()), down);
    transport::Device::connect(end, end_port, sw, port);
    sw.decoder().map(end.window(), port);
  };
  for (std::uint32_t b = 0; b < branches_of(spec.board); ++b) {
    transport::Switch& sw = switch_at(b);
    for_each_at(
        spec, b, [&](gpu::Gpu& gpu) { join(sw, gpu, gpu.pcie(), group_spec.gpu_pcie, host_format(spec)); },
        [&](infiniband::Nic& nic) {
          join(sw, nic, PortId(infiniband::Nic::kPciePort), spec.nic_pcie, pcie_format(spec));
        });
  }
}

transport::Switch& Server::switch_at(std::uint32_t branch) const {
  return plx.empty() ? static_cast<transport::Switch&>(*roots[branch]) : *plx[branch];
}

void Server::attach(const MachineSpec& spec, transport::Endpoint& device, std::uint32_t branch,
                    const LinkDatasheet& link) {
  transport::Switch& sw = switch_at(branch);
  transport::LinkDirection down = direction(link, pcie_format(spec), 0, link.buffer_bytes);
  down.sinks_responses = true;  // as in build_pcie()
  const PortId port = sw.add_port("port" + std::to_string(sw.ports()), down);
  const transport::Window beside = gpus[branch * (spec.board.gpus / branches_of(spec.board))]->window();
  for (auto& s : plx) s->decoder().map_beside(device.window(), beside);
  for (auto& root : roots) root->decoder().map_beside(device.window(), beside);
  sw.decoder().map(device.window(), port);
  transport::Device::connect(device, device.add_port("pcie", to_branch(spec, link, pcie_format(spec))), sw, port);
}

void Server::build_hosts(const MachineSpec& spec, std::uint32_t server, transport::Assembly& fabric) {
  pcie::HostMemory::Config config;
  config.read_latency = Time::nanoseconds(spec.host_memory.read_latency_ns);
  config.completion_bytes = whole(spec.pcie.host_completion_bytes);
  config.chunk_bytes = whole(spec.host_memory.bounce_chunk_bytes);
  config.chunks = static_cast<std::uint32_t>(whole(spec.host_memory.bounce_chunks));
  config.copy_start = Time::nanoseconds(spec.host_memory.bounce_start_us * 1e3);
  // A memory channel carries bursts without packets of its own.
  const LinkDatasheet dram{spec.host_memory.gb_per_s, 0, spec.host_memory.buffer_bytes};
  const transport::LinkDirection in = direction(dram, transport::PacketFormat(), 0, spec.host_memory.buffer_bytes);
  const transport::LinkDirection out = direction(dram, transport::PacketFormat(), 0, spec.root_complex.buffer_bytes);
  const transport::Window first = windows_of_gpus(spec) + nics_of(spec) + server * spec.board.sockets;
  for (std::uint32_t s = 0; s < roots.size(); ++s) {
    hosts.push_back(
        std::make_unique<pcie::HostMemory>(("host" + std::to_string(s)).c_str(), fabric.context(), first + s, config));
    fabric.add_device(*hosts[s]);
    fabric.add_sender(first + s, *hosts[s]);
    const PortId port = roots[s]->add_port("memory", in);
    transport::Device::connect(*hosts[s], hosts[s]->add_port("memory", out), *roots[s], port);
    roots[s]->decoder().map(first + s, port);
  }
  const std::uint32_t gpus_each = spec.board.gpus / spec.board.trays,
                      sockets_each = spec.board.sockets / spec.board.trays;
  for (std::uint32_t g = 0; g < gpus.size(); ++g)
    for (std::uint32_t s = 0; s < sockets_each; ++s) gpus[g]->reaches(*hosts[g / gpus_each * sockets_each + s]);
}

void Server::build_nvlink(const MachineSpec& spec, const GroupSpec& group_spec) {
  for (std::uint32_t a = 0; a < gpus.size(); ++a)
    for (std::uint32_t b = a + 1; b < gpus.size() && in_one_mesh(group_spec, a, b); ++b)
      transport::Device::connect(*gpus[a], gpus[a]->nvlink(plane_to(group_spec, a, b)), *gpus[b],
                                 gpus[b]->nvlink(plane_to(group_spec, b, a)));
  for (std::uint32_t plane = 0; plane < nvswitches.size(); ++plane) {
    transport::LinkDirection down =
        direction(group_spec.nvlink, nvlink_format(group_spec.nvlink_protocol), 0, group_spec.nvlink.buffer_bytes);
    down.rate = Rate::bytes_per_second(down.rate.bytes_per_second() * group_spec.nvlink_planes[plane]);
    down.buffer_bytes *= group_spec.nvlink_planes[plane];
    for (auto& gpu : gpus) {
      const PortId port = nvswitches[plane]->add_port("port" + std::to_string(nvswitches[plane]->ports()), down);
      transport::Device::connect(*gpu, gpu->nvlink(plane), *nvswitches[plane], port);
      nvswitches[plane]->decoder().map(gpu->window(), port);
      const std::uint32_t links = group_spec.nvlink_planes[plane];
      nvswitches[plane]->set_reduction(
          port, {whole(spec.nvswitch.reduction_slots * spec.nvswitch.reduction_slot_bytes) * links,
                 Rate::gb_per_s(spec.nvswitch.reduction_gb_per_s * links)});
    }
  }
}

void Server::build_uplinks(const MachineSpec& spec) {
  const transport::PacketFormat packet = pcie_format(spec);
  // Maps the windows below a PCIe switch at a switch above it.
  const auto map_below = [&](transport::Switch& above, PortId port, std::uint32_t s) {
    const auto map = [&](const transport::Endpoint& end) { above.decoder().map(end.window(), port); };
    for_each_at(spec, s, map, map);
  };
  for (std::uint32_t s = 0; s < plx.size(); ++s) {
    pcie::PlxSwitch& sw = *plx[s];
    const bool cascaded = spec.uplink == Uplink::cascaded && s > 0;
    if (cascaded) {
      pcie::PlxSwitch& upper = *plx[0];
      const transport::LinkDirection both = direction(spec.plx_cascade, packet, spec.plx.hop_ns, spec.plx.buffer_bytes);
      const PortId up = sw.add_port("uplink", both);
      const PortId down = upper.add_port(s == 1 ? "cascade" : "cascade" + std::to_string(s), both);
      transport::Device::connect(sw, up, upper, down);
      sw.set_uplink(up);
      map_below(upper, down, s);
      map_below(*roots[0], roots[0]->decoder().find(gpus[0]->window()), s);
      continue;
    }
    const std::size_t socket = spec.uplink == Uplink::dual_root ? s * roots.size() / plx.size() : 0;
    pcie::RootComplex& root = *roots[socket];
    const PortId up = sw.add_port(
        "uplink", direction(spec.plx_uplink, packet, spec.root_complex.hop_ns, spec.root_complex.buffer_bytes));
    const PortId down = root.add_port("port" + std::to_string(root.ports()),
                                      direction(spec.plx_uplink, packet, spec.plx.hop_ns, spec.plx.buffer_bytes));
    transport::Device::connect(sw, up, root, down);
    sw.set_uplink(up);
    map_below(root, down, s);
  }
}

void Server::join_sockets(const MachineSpec& spec) {
  // The socket link carries cache lines; its rate is a payload rate.
  const transport::LinkDirection socket =
      direction(spec.socket_link, transport::PacketFormat(), spec.root_complex.hop_ns, spec.root_complex.buffer_bytes);
  for (std::size_t s = 0; s + 1 < roots.size(); s += 2) {
    const PortId a = roots[s]->add_port("socket", socket);
    const PortId b = roots[s + 1]->add_port("socket", socket);
    transport::Device::connect(*roots[s], a, *roots[s + 1], b);
    roots[s]->decoder().set_default(a);
    roots[s + 1]->decoder().set_default(b);
  }
}

}  // namespace railyard::platforms
