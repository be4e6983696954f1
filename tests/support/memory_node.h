// The smallest device that sends and receives on the fabric: a memory that injects its messages through a port, or over
// a NIC, answers read requests, and sinks writes.
#pragma once

#include <unordered_map>

#include "infiniband/nic.h"
#include "transport/assembly.h"
#include "transport/device/endpoint.h"
#include "transport/device/group_switch.h"

namespace railyard::test {

class MemoryNode : public transport::Endpoint, public transport::Sender {
 public:
  MemoryNode(sc_core::sc_module_name name, transport::Assembly& fabric, transport::Window window,
             Time read_latency = Time())
      : Endpoint(name, fabric.context(), window), read_latency_(read_latency) {
    fabric.add_device(*this);
    fabric.add_sender(window, *this);
  }

  /// Messages to `destination` leave through this port; by default port 0.
  void route(transport::Window destination, PortId out) { out_[destination] = {out}; }
  /// The next choice, used if the links of all earlier paths have failed: this port.
  void route_otherwise(transport::Window destination, PortId out) { out_[destination].push_back(out); }
  /// `nic` sends messages to `destination` from this memory to the NIC at `remote`, and reads `destination` through it.
  void route(transport::Window destination, infiniband::Nic& nic, transport::Lid remote) {
    nics_[destination] = {{&nic, remote}};
  }
  void route_otherwise(transport::Window destination, infiniband::Nic& nic, transport::Lid remote) {
    nics_[destination].push_back({&nic, remote});
  }
  /// The sending engine's own packet limit.
  void set_engine_payload(Bytes bytes) { engine_payload_bytes_ = bytes; }

  Time read_latency() const override { return read_latency_; }

  void send(transport::Message& message) override {
    const bool over_nic = message.kind == transport::MessageKind::read && nic_path(message.destination) != nullptr;
    if (message.kind != transport::MessageKind::write && !over_nic) {
      message.address =
          of_group(message.kind) ? message.offset : transport::window_base(message.destination) + message.offset;
      Part part = whole_of(message);
      part.engine_payload_bytes = engine_payload_bytes_;
      inject(PortId(0), part);
      return;
    }
    message.address = transport::window_base(message.destination);
    send_part(message, message.address, message.bytes);
  }

  bool send_again(transport::Message& message, std::uint64_t address, Bytes bytes) override {
    if (!has_path(message.destination)) return false;
    send_part(message, address, bytes);
    return true;
  }

  transport::Path path_to(transport::Window destination, std::uint8_t, transport::Engine) const override {
    if (const NicPath* over = nic_path(destination)) return over->nic->path(window(), destination, over->remote);
    transport::Path path;
    path.engine_payload_bytes = engine_payload_bytes_;
    path.lanes.push_back({transport::walk(*this, out(destination), transport::window_base(destination), 0), 1});
    return path;
  }

  transport::Path path_of(const transport::Message& message) const override {
    using transport::MessageKind;
    if (message.kind == MessageKind::write) return path_to(message.destination, message.traffic_class, message.engine);
    if (message.kind == MessageKind::read) {
      if (const NicPath* over = nic_path(message.destination))
        return over->nic->read_path(message.destination, window(), over->remote);
      const std::uint64_t address = transport::window_base(message.destination);
      const transport::Arrival memory = transport::arrival(transport::walk(*this, PortId(0), address, 0), address);
      return transport::read_path(*this, PortId(0), *memory.endpoint, memory.port, memory.endpoint->read_latency());
    }
    transport::Path path;
    path.engine_payload_bytes = engine_payload_bytes_;
    const auto& members = context_.groups.at(message.group);
    if (message.kind == MessageKind::multicast) {
      transport::add_multicast_lane(path, *this, PortId(0), members, 1);
    } else {
      transport::add_reduction_lane(path, *this, PortId(0), members, 1);
    }
    return path;
  }

 private:
  struct NicPath {
    infiniband::Nic* nic = nullptr;
    transport::Lid remote = 0;
  };
  void send_part(transport::Message& message, std::uint64_t address, Bytes bytes) {
    if (const NicPath* over = nic_path(message.destination)) {
      over->nic->post(message, over->remote, bytes);
      return;
    }
    Part part = whole_of(message);
    part.address = address;
    part.bytes = bytes;
    part.engine_payload_bytes = engine_payload_bytes_;
    inject(out(message.destination), part);
  }
  bool is_open(PortId out, transport::Window destination) const {
    const std::uint64_t address = transport::window_base(destination);
    const std::vector<transport::Hop> hops = transport::walk(*this, out, address, 0);
    return transport::is_open(hops) && transport::arrival(hops, address).endpoint != nullptr;
  }
  bool has_path(transport::Window destination) const {
    if (const NicPath* over = nic_path(destination)) return over->nic->reaches(window(), destination, over->remote);
    return is_open(out(destination), destination);
  }
  /// The first path without a failed link, or the last path.
  const NicPath* nic_path(transport::Window destination) const {
    const auto found = nics_.find(destination);
    if (found == nics_.end()) return nullptr;
    for (const NicPath& over : found->second)
      if (found->second.size() == 1 || over.nic->reaches(window(), destination, over.remote)) return &over;
    return &found->second.back();
  }
  PortId out(transport::Window destination) const {
    const auto found = out_.find(destination);
    if (found == out_.end()) return PortId(0);
    for (const PortId out : found->second)
      if (found->second.size() == 1 || is_open(out, destination)) return out;
    return found->second.back();
  }

  Time read_latency_;
  Bytes engine_payload_bytes_ = 0;
  std::unordered_map<transport::Window, std::vector<PortId>> out_;
  std::unordered_map<transport::Window, std::vector<NicPath>> nics_;
};

}  // namespace railyard::test
