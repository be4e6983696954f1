#include "platforms/machine.h"

#include <algorithm>
#include <stdexcept>

#include "platforms/link_direction.h"
#include "transport/assembly.h"

namespace railyard::platforms {

std::uint32_t first_nic_at(const MachineSpec& spec, std::uint32_t branch) {
  return static_cast<std::uint32_t>(ceil_div(branch * spec.nics_per_server, branches_of(spec.board)));
}

Machine::~Machine() {
  fabric_.set_router(nullptr);
  fabric_.watch_memories(nullptr);
}

Machine::Machine(const MachineSpec& spec, transport::Assembly& fabric)
    : spec_(spec), fabric_(fabric), nics_per_server_(spec.nics_per_server), memory_traffic_(fabric) {
  fabric_.set_router(this);
  const std::uint32_t gpus = windows_of_gpus(spec_);

  std::uint32_t server = 0;
  for (std::uint32_t g = 0; g < spec_.groups.size(); ++g) {
    first_gpu_of_group_.push_back(server * spec_.board.gpus);
    for (std::uint32_t s = 0; s < spec_.groups[g].servers; ++s, ++server) {
      // Only machines of one group are folded.
      const std::string name = spec_.groups[g].name + std::to_string(spec_.part ? number_in_whole(spec_, server) : s);
      servers_.push_back(std::make_unique<Server>(name.c_str(), spec_, g, server, fabric_,
                                                  static_cast<const gpu::EgressPolicy&>(*this)));
      for (std::uint32_t slot = 0; slot < spec_.board.gpus; ++slot) {
        gpus_.push_back(servers_.back()->gpus[slot].get());
        places_.push_back(
            {g, server, slot, (spec_.part ? number_in_whole(spec_, server) : s) * spec_.board.gpus + slot});
      }
      for (auto& nic : servers_.back()->nics) nics_.push_back(nic.get());
    }
  }
  nics_of_gpu_.resize(gpus);
  for (std::uint32_t g = 0; g < gpus; ++g) nics_of_gpu_[GpuId(g)] = nearest_nics(GpuId(g));
  if (spec_.board.nvlink_planes.empty() && spec_.root_complex.far_peer_gb_per_s > 0)
    far_pairs_.assign(gpus * spec_.board.gpus, transport::Meter(Rate::gb_per_s(spec_.root_complex.far_peer_gb_per_s)));
  for (gpu::Gpu* gpu : gpus_) {
    memory_traffic_.add(*gpu);
    if (spec_.part) memory_traffic_.add_window(gpu->window_beyond(), *gpu);
  }
  fabric_.watch_memories(&memory_traffic_);
  build_host_ports();
  if (spec_.network == NetworkKind::single_switch) {
    build_single_switch();
  } else {
    build_fat_tree();
  }
}

std::vector<gpu::Gpu*> Machine::gpus(const std::vector<GpuId>& ids) const {
  std::vector<gpu::Gpu*> result;
  for (const GpuId id : ids) result.push_back(gpus_[id]);
  return result;
}

GpuId Machine::gpu_in_group(std::uint32_t group, std::uint32_t index_in_group) const {
  return GpuId(first_gpu_of_group_[group] + index_in_group);
}

std::uint32_t Machine::index_in_group(NicId id) const {
  if (spec_.part) return nics_[id]->lid();
  const std::uint32_t first_server = first_gpu_of_group_[group_of(id)] / spec_.board.gpus;
  return id.value() - first_server * nics_per_server_;
}

Machine::NicShare Machine::nearest_nics(GpuId gpu) const {
  const std::uint32_t branches = branches_of(spec_.board), gpus_each = spec_.board.gpus / branches;
  const auto has_nics = [&](std::uint32_t b) { return first_nic_at(spec_, b) != first_nic_at(spec_, b + 1); };
  std::uint32_t own = places_[gpu].slot / gpus_each;
  while (!has_nics(own)) --own;  // ends, because the first branch has a NIC
  std::uint32_t next = own + 1;
  while (next < branches && !has_nics(next)) ++next;
  const std::uint32_t first = first_nic_at(spec_, own), nics = first_nic_at(spec_, own + 1) - first;
  const std::uint32_t gpus = (next - own) * gpus_each, index = places_[gpu].slot - own * gpus_each;
  const std::uint32_t each = std::max(1u, nics / gpus);
  return {first + index * each % nics, each};
}

std::uint32_t Machine::nic_modulo(GpuId gpu, std::uint32_t number) const {
  const std::uint32_t nics = nics_per_server_ / spec_.board.trays, gpus = spec_.board.gpus / spec_.board.trays;
  return places_[gpu].slot / gpus * nics + number % nics;
}

NicId Machine::nic_of(GpuId gpu, std::uint32_t queue_pair) const {
  const NicShare& share = nics_of_gpu_[gpu];
  return NicId(places_[gpu].server * nics_per_server_ + share.first + transport::in_set(queue_pair) % share.count);
}

transport::Meter* Machine::far_pair(const GpuPlace& a, const GpuPlace& b) const {
  if (far_pairs_.empty() || socket_of(spec_, a.slot) == socket_of(spec_, b.slot)) return nullptr;
  const auto [low, high] = std::minmax(a.slot, b.slot);
  return &far_pairs_[(a.server * spec_.board.gpus + low) * spec_.board.gpus + high];
}

std::vector<Machine::FarPair> Machine::far_pairs() const {
  std::vector<FarPair> pairs;
  for (std::uint32_t one = 0; one < gpus() && !far_pairs_.empty(); ++one)
    for (std::uint32_t other = one + 1; other < gpus() && places_[GpuId(other)].server == places_[GpuId(one)].server;
         ++other)
      if (const transport::Meter* meter = far_pair(places_[GpuId(one)], places_[GpuId(other)]); meter != nullptr)
        pairs.push_back({GpuId(one), GpuId(other), meter});
  return pairs;
}

gpu::Egress Machine::egress(transport::Window source, transport::Window destination, std::uint8_t,
                            std::uint32_t queue_pair) const {
  gpu::Egress egress;
  if (source == destination) return egress;
  if (is_sum(destination)) {
    egress.via = gpu::Egress::Via::nic;
    egress.nic = nics_[nic_of(GpuId(source))];
    egress.remote = lid_of(destination);
    if (has_lost_links_ && !egress.nic->reaches(source, destination, egress.remote))
      egress.via = gpu::Egress::Via::none;
    return egress;
  }
  const GpuPlace& from = places_[GpuId(source)];
  const GpuId beside = served_with(destination);
  const GpuPlace& to = places_[beside];
  if (is_beyond(destination) && spec_.part->in_one_server) {
    egress.via = gpu::Egress::Via::nvlink;
    return egress;
  }
  if (is_beyond(destination)) {
    egress.via = gpu::Egress::Via::nic;
    egress.nic = nics_[nic_of(GpuId(source), queue_pair)];
    egress.remote = lid_beyond(*nics_[nic_of(beside, queue_pair)]);
    egress.one_of_several = nics_of_gpu_[GpuId(source)].count > 1 || nics_of_gpu_[beside].count > 1;
    return egress;
  }
  const std::uint32_t gpus_each = spec_.board.gpus / spec_.board.trays;
  const bool in_one_tray = from.server == to.server && from.slot / gpus_each == to.slot / gpus_each;
  const GroupSpec& group = spec_.groups[from.group];
  // Without peer access, bytes cross host memory; an operating system, and thus a host memory, does not leave its tray.
  const bool in_one_host = group.gpu.pcie.p2p || in_one_tray || in_one_mesh(group, from.slot, to.slot);
  if (destination >= gpus_.size()) {
    if (in_one_tray) {
      egress.via = gpu::Egress::Via::pcie;
      return has_lost_links_ ? path_left(source, destination, egress) : egress;
    }
    if (destination < first_free_window())
      throw std::logic_error("only GPUs of its tray copy to and from a host's memory");
  } else if (from.server == to.server && in_one_host) {
    if (in_one_mesh(group, from.slot, to.slot)) {
      egress.via = gpu::Egress::Via::nvlink;
    } else if (!group.gpu.pcie.p2p) {
      egress.via = gpu::Egress::Via::bounce;
      egress.host =
          servers_[to.server]->hosts[socket_of(spec_, to.slot)].get();  // the host memory of the receiver, as in NCCL
    } else {
      egress.via = spec_.board.nvlink_planes.empty() ? gpu::Egress::Via::pcie : gpu::Egress::Via::nvlink;
      if (egress.via == gpu::Egress::Via::pcie) egress.far_pair = far_pair(from, to);
    }
    return has_lost_links_ ? path_left(source, destination, egress) : egress;
  }
  egress.via = gpu::Egress::Via::nic;
  egress.nic = nics_[nic_of(GpuId(source), queue_pair)];
  egress.remote = nics_[nic_of(beside, queue_pair)]->lid();
  egress.one_of_several = nics_of_gpu_[GpuId(source)].count > 1 || nics_of_gpu_[beside].count > 1;
  return has_lost_links_ ? path_left(source, destination, egress) : egress;
}

void Machine::attach(transport::Endpoint& device, std::uint32_t server, std::uint32_t branch,
                     const LinkDatasheet& link) {
  const std::uint32_t branches = branches_of(spec_.board);
  if (server >= servers_.size() || branch >= branches)
    throw std::logic_error("a device is attached to a branch that does not exist");
  const GpuId beside((server * branches + branch) * (spec_.board.gpus / branches));
  if (device.window() < first_free_window() || !attached_.emplace(device.window(), beside).second)
    throw std::logic_error("the window of an attached device is in use");
  servers_[server]->attach(spec_, device, branch, link);
}

GpuId Machine::served_with(transport::Window memory) const {
  if (memory < gpus_.size()) return GpuId(memory);
  if (is_beyond(memory)) return GpuId(memory - first_beyond());
  const auto attached = attached_.find(memory);
  if (attached != attached_.end()) return attached->second;
  if (memory < first_host() || memory >= first_beyond())
    throw std::logic_error("window " + std::to_string(memory) + " belongs to no memory");
  const std::uint32_t server = (memory - first_host()) / spec_.board.sockets,
                      socket = (memory - first_host()) % spec_.board.sockets;
  std::uint32_t slot = 0;  // a socket without GPUs uses those of slot 0
  for (std::uint32_t s = spec_.board.gpus; s-- > 0;)
    if (socket_of(spec_, s) == socket) slot = s;
  return GpuId(server * spec_.board.gpus + slot);
}

infiniband::Nic& Machine::nic_at(transport::Window memory, std::uint32_t queue_pair) const {
  const GpuId first = served_with(memory);
  const bool is_of_host = memory >= first_host() && memory < first_beyond();
  if (!is_of_host) return *nics_[nic_of(first, queue_pair)];
  std::uint32_t gpus = 0;
  for (std::uint32_t s = 0; s < spec_.board.gpus; ++s)
    gpus += socket_of(spec_, s) == socket_of(spec_, places_[first].slot);
  return *nics_[nic_of(GpuId(first.value() + transport::set_of(queue_pair) % gpus), queue_pair)];
}

std::uint32_t Machine::queue_pairs_beside(GpuId gpu) const {
  const std::uint32_t first =
      served_with(servers_[place(gpu).server]->hosts[socket_of(spec_, place(gpu).slot)]->window()).value();
  return transport::of_set(gpu.value() - first, 0);
}

void Machine::HostPort::send(transport::Message& message) {
  machine_.nic_at(host_, message.queue_pair)
      .post_from_host(message, machine_.nic_at(message.destination, message.queue_pair).lid());
}

transport::Path Machine::HostPort::path_to(transport::Window destination, std::uint8_t, transport::Engine) const {
  return machine_.nic_at(host_, 0).path_from_host(host_, destination, machine_.nic_at(destination, 0).lid());
}

transport::Path Machine::HostPort::path_of(const transport::Message& message) const {
  const transport::Window memory = message.destination;
  infiniband::Nic& nic = machine_.nic_at(host_, message.queue_pair);
  const transport::Lid remote = machine_.nic_at(memory, message.queue_pair).lid();
  return message.kind == transport::MessageKind::read ? nic.read_path(memory, host_, remote)
                                                      : nic.path_from_host(host_, memory, remote);
}

void Machine::build_host_ports() {
  for (auto& server : servers_) {
    for (auto& host : server->hosts) {
      host_ports_.emplace_back(*this, host->window());
      host->set_beyond(host_ports_.back());
    }
  }
}

}  // namespace railyard::platforms
