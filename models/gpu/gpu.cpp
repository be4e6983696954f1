#include "gpu/gpu.h"

#include <algorithm>
#include <set>
#include <stdexcept>

#include "gpu/datasheet.h"
#include "infiniband/nic.h"
#include "pcie/host_memory.h"
#include "transport/device/spread.h"

namespace railyard::gpu {

using transport::Message;
using transport::MessageKind;

namespace {

bool is_spread(const Message& message) { return (message.queue_pair & transport::kSpreadOverNics) != 0; }

/// Bytes of a message for one way before the next one's turn.
Bytes stripe_of(const Message& message) {
  return (message.queue_pair & transport::kSpreadEvenly) != 0 ? 1 : transport::kNicStripeBytes;
}

/// By NIC of the source, or of the destination if it has more, the ways of a message; one if links lead nowhere else.
std::vector<Egress> egresses_over_nics(const EgressPolicy& policy, const Message& message) {
  constexpr std::uint32_t kMostNics = 8;
  std::vector<Egress> egresses;
  for (std::uint32_t i = 0; i < kMostNics; ++i) {
    const Egress egress =
        policy.egress(message.source, message.destination, message.traffic_class, message.queue_pair + i);
    if (egress.via != Egress::Via::nic) break;
    if (i > 0 && egress.nic == egresses[0].nic && egress.remote == egresses[0].remote) break;
    egresses.push_back(egress);
  }
  return egresses;
}

/// Deals the stripes of a message to the ways, in turn. A message without bytes takes the first way.
void post_spread(const std::vector<Egress>& egresses, Message& message, Bytes bytes) {
  const Bytes stripe = stripe_of(message), stripes = ceil_div(bytes, stripe), each = stripes / egresses.size();
  Bytes left = bytes;
  for (std::size_t w = 0; w < egresses.size(); ++w) {
    const Bytes most = (each + (w < stripes % egresses.size() ? 1 : 0)) * stripe;
    const Bytes part = std::min(left, most);
    if (part != 0 || (bytes == 0 && w == 0)) egresses[w].nic->post(message, egresses[w].remote, part);
    left -= part;
  }
}

/// Lanes of a write that is spread, one for each way. @param one  the path over the first of several NICs
transport::Path spread_path(const std::vector<Egress>& egresses, const Message& message, transport::Path one) {
  one.lanes.clear();
  for (const Egress& egress : egresses)
    one.lanes.push_back(egress.nic->path(message.source, message.destination, egress.remote).lanes.front());
  std::set<const void*> nics;  // each has tags of its own
  for (const Egress& egress : egresses) nics.insert(egress.nic);
  one.limit = Rate::bytes_per_second(one.limit.bytes_per_second() * nics.size());
  one.stripe_bytes = stripe_of(message);
  return one;
}

}  // namespace

Gpu::Gpu(sc_core::sc_module_name name, transport::FabricContext& context, transport::Window window,
         const Config& config, const EgressPolicy& policy)
    : Reader(name, context, window, PortId(static_cast<std::uint32_t>(config.nvlink_planes.size())), config.pcie_reads),
      config_(config),
      policy_(policy),
      sms_(*config.datasheet, context.calendar),
      hbm_(static_cast<Bytes>(config.datasheet->hbm.capacity_gb * 1e9)),
      stripes_(config.nvlink_planes, config.stripe_bytes) {
  for (std::size_t plane = 0; plane < config_.nvlink_planes.size(); ++plane) {
    transport::LinkDirection bundle = config_.nvlink;
    bundle.rate = Rate::bytes_per_second(config_.nvlink_rate.bytes_per_second() * config_.nvlink_planes[plane]);
    bundle.buffer_bytes *= config_.nvlink_planes[plane];
    add_port("nvlink" + std::to_string(plane), bundle);
  }
  add_port("pcie", config_.pcie);
}

Time Gpu::memory_latency() const { return Time::nanoseconds(config_.datasheet->hbm.read_latency_ns); }

std::vector<std::uint64_t> Gpu::traits(PortId) const {
  std::vector<std::uint64_t> traits{reinterpret_cast<std::uintptr_t>(config_.datasheet),
                                    config_.stripe_bytes,
                                    config_.sm.written_bytes,
                                    config_.sm.requested_bytes,
                                    config_.copy_engine.written_bytes,
                                    config_.copy_engine.requested_bytes,
                                    config_.groups ? 1u : 0u,
                                    config_.pcie_write_bytes};
  traits.insert(traits.end(), config_.nvlink_planes.begin(), config_.nvlink_planes.end());
  return traits;
}

bool Gpu::reaches_over_nvlink(transport::Window destination) const {
  return policy_.egress(window(), destination, 0, 0).via == Egress::Via::nvlink;
}

void Gpu::send(Message& message) {
  message.address =
      of_group(message.kind) ? message.offset : transport::window_base(message.destination) + message.offset;
  if (!send_again(message, message.address, message.bytes))
    context_.losses->on_lost(message, message.address, message.bytes);
}

bool Gpu::send_again(Message& message, std::uint64_t address, Bytes bytes) {
  if (of_group(message.kind)) {
    if (stripes_over(message.group).empty()) return false;
    send_over_nvlink(message, address, bytes);
    return true;
  }
  const Egress egress = policy_.egress(message.source, message.destination, message.traffic_class, message.queue_pair);
  switch (egress.via) {
    case Egress::Via::local: copy_locally(message); break;
    case Egress::Via::nvlink: send_over_nvlink(message, address, bytes); break;
    case Egress::Via::pcie:
      if (message.kind == MessageKind::read) {
        pull(flow_of(message, message.destination), message, bytes);
      } else {
        Part part = written_over_pcie(message, address, bytes);
        if (message.engine == transport::Engine::sm) part.meter = egress.far_pair;
        inject(pcie(), part);
      }
      break;
    case Egress::Via::bounce: return egress.host->bounce(message);
    case Egress::Via::nic:
      if (!egress.one_of_several || !is_spread(message)) {
        egress.nic->post(message, egress.remote, bytes);
      } else {
        post_spread(egresses_over_nics(policy_, message), message, bytes);
      }
      break;
    case Egress::Via::none: return false;
  }
  return true;
}

Gpu::Part Gpu::written_over_pcie(Message& message, std::uint64_t address, Bytes bytes) const {
  Part part = whole_of(message);
  part.address = address;
  part.bytes = bytes;
  part.engine_payload_bytes = config_.pcie_write_bytes;
  return part;
}

void Gpu::reaches(pcie::HostMemory& host) { host.serve(window(), *this); }

transport::Path Gpu::fetch_path(const pcie::HostMemory& from) const { return pull_path(from.window()); }

void Gpu::stage(Message& message, pcie::HostMemory& into, Bytes bytes) {
  inject(pcie(), written_over_pcie(message, transport::window_base(into.window()), bytes));
}

void Gpu::fetch(Message& message, pcie::HostMemory& from, Bytes bytes) {
  const std::uint32_t flow = flow_of(message, from.window());
  if (flow >= fetched_from_.size()) fetched_from_.resize(flow + 1);
  fetched_from_[flow] = &from;
  pull(flow, message, bytes);
}

void Gpu::receive(transport::Transaction& t) {
  if (t.ingress == pcie() && t.kind == transport::TransactionKind::read_response) {
    completed(t);
    const std::uint32_t flow = flow_of(t);
    if (flow < fetched_from_.size() && fetched_from_[flow] != nullptr)
      fetched_from_[flow]->taken(*t.message, t.payload_bytes, t.tail);
  }
  Endpoint::receive(t);
}

void Gpu::copy_locally(Message& message) {
  // Read and written once each.
  const double bytes_per_second = config_.datasheet->hbm.gb_per_s * 1e9 * config_.datasheet->hbm.stream_ratio;
  message.finished = now() + Time::seconds(2.0 * static_cast<double>(message.bytes) / bytes_per_second);
  message.landed = message.bytes;
  context_.calendar.at(message.finished, *this, kDeliveredTag, reinterpret_cast<std::uint64_t>(&message));
}

nvlink::Stripes Gpu::stripes_where_open(const std::vector<transport::Window>& members) const {
  std::vector<std::uint32_t> links = config_.nvlink_planes;
  for (std::uint32_t plane = 0; plane < links.size(); ++plane) {
    for (const transport::Window member : members) {
      const std::uint64_t address = transport::window_base(member);
      const std::vector<transport::Hop> hops = transport::walk(*this, nvlink(plane), address, 0);
      if (!transport::is_open(hops) || transport::arrival(hops, address).endpoint == nullptr) links[plane] = 0;
    }
  }
  return nvlink::Stripes(links, config_.stripe_bytes);
}

const nvlink::Stripes& Gpu::stripes_to(transport::Window destination) const {
  if (context_.losses == nullptr && config_.mesh_gpus == 0) return stripes_;
  const auto [found, fresh] = open_stripes_.try_emplace(destination);
  if (fresh) found->second = stripes_where_open({destination});
  return found->second;
}

const nvlink::Stripes& Gpu::stripes_over(transport::GroupId group) const {
  if (context_.losses == nullptr) return stripes_;
  constexpr std::uint64_t kGroupKey = 1ull << 32;
  const auto [found, fresh] = open_stripes_.try_emplace(kGroupKey + group);
  if (fresh) found->second = stripes_where_open(context_.groups.at(group));
  return found->second;
}

void Gpu::send_over_nvlink(Message& message, std::uint64_t address, Bytes bytes) {
  const nvlink::Stripes& stripes =
      of_group(message.kind) ? stripes_over(message.group) : stripes_to(message.destination);
  const std::uint64_t base =
      of_group(message.kind)
          ? 0
          : transport::interleave_base(window(), transport::window_of(address), stripes.cycle_bytes());
  stripes.split(base + address % transport::window_base(1), bytes, on_plane_);
  Part part = whole_of(message);
  part.address = address;
  part.bytes = bytes;
  part.engine_payload_bytes = nvlink_packet_bytes(message.engine, message.kind);
  if (bytes == 0) inject(nvlink(stripes.first_plane()), part);
  for (std::uint32_t plane = 0; plane < on_plane_.size(); ++plane) {
    if (on_plane_[plane] == 0) continue;
    part.bytes = on_plane_[plane];
    // The engine writes to all planes at the same time, so each gets its part of the rate.
    part.rate = Rate::bytes_per_second(static_cast<std::uint64_t>(
        static_cast<unsigned __int128>(message.source_rate.bytes_per_second()) * part.bytes / bytes));
    inject(nvlink(plane), part);
  }
}

Bytes Gpu::nvlink_packet_bytes(transport::Engine engine, MessageKind kind) const {
  const nvlink::EnginePackets& packets = engine == transport::Engine::sm ? config_.sm : config_.copy_engine;
  return kind == MessageKind::write || kind == MessageKind::multicast ? packets.written_bytes : packets.requested_bytes;
}

transport::Path Gpu::path_to(transport::Window destination, std::uint8_t traffic_class,
                             transport::Engine engine) const {
  const Egress egress = policy_.egress(window(), destination, traffic_class, 0);
  const std::uint64_t address = transport::window_base(destination);
  transport::Path path;
  switch (egress.via) {
    case Egress::Via::local:
    case Egress::Via::none: break;
    case Egress::Via::nvlink:
      path.engine_payload_bytes = nvlink_packet_bytes(engine, MessageKind::write);
      path.stripe_bytes = config_.stripe_bytes;
      for (std::uint32_t plane = 0; plane < config_.nvlink_planes.size(); ++plane)
        if (const std::uint32_t links = stripes_to(destination).links(plane); links != 0)
          path.lanes.push_back({transport::walk(*this, nvlink(plane), address, 0), links});
      break;
    case Egress::Via::pcie:
      path = pcie_path(address);
      if (egress.far_pair != nullptr && engine == transport::Engine::sm) {
        path.limit = egress.far_pair->rate();
        path.meter = egress.far_pair;
      }
      break;
    case Egress::Via::bounce:
      return egress.host->bounce_path(pcie_path(transport::window_base(egress.host->window())), destination, engine);
    case Egress::Via::nic:
      path = egress.nic->path(window(), destination, egress.remote);
      if (!egress.one_of_several) break;
      for (transport::Lane& lane : path.lanes)
        for (transport::Hop& hop : lane.hops) hop.one_of_several = true;
      break;
  }
  return path;
}

transport::Path Gpu::pcie_path(std::uint64_t address) const {
  transport::Path path;
  path.engine_payload_bytes = config_.pcie_write_bytes;
  path.lanes.push_back({transport::walk(*this, pcie(), address, 0), 1});
  return path;
}

transport::Path Gpu::path_of(const Message& message) const {
  switch (message.kind) {
    case MessageKind::write: {
      transport::Path path = path_to(message.destination, message.traffic_class, message.engine);
      const bool over_nics = !path.lanes.empty() && path.lanes[0].hops.back().one_of_several;
      return over_nics && is_spread(message)
                 ? spread_path(egresses_over_nics(policy_, message), message, std::move(path))
                 : path;
    }
    case MessageKind::read: return read_path_of(message);
    default: return group_path_of(message);
  }
}

transport::Path Gpu::read_path_of(const Message& message) const {
  const Egress egress = policy_.egress(window(), message.destination, message.traffic_class, message.queue_pair);
  transport::Path path;
  if (egress.via == Egress::Via::local || egress.via == Egress::Via::none) return path;
  if (egress.via == Egress::Via::pcie) return pull_path(message.destination);
  if (egress.via == Egress::Via::nic) return egress.nic->read_path(message.destination, window(), egress.remote);
  if (egress.via != Egress::Via::nvlink)
    throw std::logic_error(std::string(name()) + ": a read needs the memory of a reachable peer");
  const auto add = [&](PortId out, std::uint32_t weight) {
    const std::uint64_t address = transport::window_base(message.destination);
    const transport::Arrival memory = transport::arrival(transport::walk(*this, out, address, 0), address);
    if (memory.endpoint == nullptr)
      throw std::logic_error(std::string(name()) + ": a read of an address that is no memory");
    transport::Path lane =
        transport::read_path(*this, out, *memory.endpoint, memory.port, memory.endpoint->read_latency());
    lane.lanes[0].weight = weight;
    path.fixed = later(path.fixed, lane.fixed);
    path.lanes.push_back(std::move(lane.lanes[0]));
  };
  path.stripe_bytes = config_.stripe_bytes;
  const nvlink::Stripes& stripes = stripes_to(message.destination);
  for (std::uint32_t plane = 0; plane < stripes.planes(); ++plane)
    if (stripes.links(plane) != 0) add(nvlink(plane), stripes.links(plane));
  return path;
}

transport::Path Gpu::group_path_of(const Message& message) const {
  if (!multicasts())
    throw std::logic_error(std::string(name()) + " has no NVSwitch that multicasts and reduces for a group");
  const std::vector<transport::Window>& members = context_.groups.at(message.group);
  transport::Path path;
  path.engine_payload_bytes = nvlink_packet_bytes(message.engine, message.kind);
  path.stripe_bytes = config_.stripe_bytes;
  for (std::uint32_t plane = 0; plane < config_.nvlink_planes.size(); ++plane) {
    if (stripes_over(message.group).links(plane) == 0) continue;
    if (message.kind == MessageKind::multicast) {
      transport::add_multicast_lane(path, *this, nvlink(plane), members, config_.nvlink_planes[plane]);
    } else {
      transport::add_reduction_lane(path, *this, nvlink(plane), members, config_.nvlink_planes[plane]);
    }
  }
  return path;
}

}  // namespace railyard::gpu
