#include "collective/footprint.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <typeinfo>

namespace railyard::collective {

namespace {

using transport::Device;

class Walk {
 public:
  Walk(const transport::Fabric& fabric, const Group& group) : fabric_(fabric), group_(group) {
    add(group.size());
    for (std::uint32_t m = 0; m < group.size(); ++m) add(group.server_of(m));
    add(group.multicast_group.size());
  }

  void add_class(std::uint8_t traffic_class) {
    add(traffic_class);
    for (const transport::Window from : group_.members)
      for (const transport::Window to : group_.members)
        if (from != to) add_path(fabric_.path(from, to, traffic_class), from, to);
    for (std::uint32_t m = 0; m < group_.sum_nodes.size(); ++m) {
      transport::Window from = group_.members[m];
      for (const transport::Window node : group_.sum_nodes[m]) {
        add_path(fabric_.path(from, node, traffic_class), from, node);
        add_path(fabric_.path(node, from, traffic_class), node, from);
        from = node;
      }
    }
  }

  Footprint result() {
    for (const transport::LinkEnd& port : found_.ports) add_port(port);
    for (const auto& [device, ports] : by_device()) {
      words_.classes.emplace_back(typeid(*device));
      for (const auto& [id, number] : ports) add(number);
    }
    for (const transport::Meter* meter : found_.meters) add(meter->rate().bytes_per_second());
    if (comparable_) found_.makeup = std::move(words_);
    return std::move(found_);
  }

 private:
  void add(std::uint64_t word) {
    if (comparable_) words_.words.push_back(word);
  }
  void not_comparable() {
    comparable_ = false;
    words_ = {};
  }

  std::size_t number_of(const transport::Hop& hop) {
    const Device::Port& port = hop.device->port(hop.port);
    const auto [found, fresh] = numbers_.try_emplace({hop.device, hop.port.value()}, found_.ports.size());
    if (fresh) {
      Device* const device = port.peer->port(port.peer_port).peer;  // hop.device, which a hop may not change
      found_.ports.push_back({device, hop.port});
      if (port.egress.failed() || device->traits(hop.port).empty()) not_comparable();
    }
    return found->second;
  }

  std::size_t number_of(transport::Meter* meter) {
    if (meter == nullptr) return ~std::size_t(0);
    const auto found = std::find(found_.meters.begin(), found_.meters.end(), meter);
    const auto number = static_cast<std::size_t>(found - found_.meters.begin());
    if (found == found_.meters.end()) found_.meters.push_back(meter);
    return number;
  }

  void add_path(const transport::Path& path, transport::Window from, transport::Window to) {
    for (const std::uint64_t word :
         {path.fixed.fs(), path.limit.bytes_per_second(), static_cast<std::uint64_t>(number_of(path.meter)),
          path.engine_payload_bytes, path.request_bytes, path.completion_payload_bytes, path.asked_ahead_bytes,
          path.inline_bytes, static_cast<std::uint64_t>(path.hops_to_inline), path.inline_fixed.fs(),
          static_cast<std::uint64_t>(path.hops_to_stage), path.chunk_bytes, path.chunk_start.fs(),
          path.smallest_transaction_bytes, path.stripe_bytes})
      add(word);
    found_.stripes.push_back(stripe_of(path, from, to));
    add(path.lanes.size());
    for (const transport::Lane& lane : path.lanes) {
      add(lane.weight);
      add(lane.hops.size());
      for (const transport::Hop& hop : lane.hops) {
        found_.spread |= hop.one_of_several;
        add(number_of(hop));
        add(static_cast<std::uint64_t>(hop.kind));
        add(hop.answers_reads ? 1 : 0);
      }
    }
  }

  static std::uint64_t stripe_of(const transport::Path& path, transport::Window from, transport::Window to) {
    std::uint64_t sum = 0, divisor = 0;
    for (const transport::Lane& lane : path.lanes) {
      sum += lane.weight;
      divisor = std::gcd(divisor, std::uint64_t(lane.weight));
    }
    return path.stripe_bytes == 0 ? 0 : transport::interleave_base(from, to, path.stripe_bytes * (sum / divisor));
  }

  void add_port(const transport::LinkEnd& end) {
    const Device::Port& port = end.state();
    const auto back = numbers_.find({port.peer, port.peer_port.value()});
    if (back == numbers_.end()) {
      not_comparable();
      return;
    }
    add(back->second);
    add(reinterpret_cast<std::uintptr_t>(&port.egress.kind()));  // one object for all links of equal rates and formats
    for (const std::uint64_t trait : end.device->traits(end.port)) add(trait);
  }

  /// The numbers of each device's ports by the device's own order; devices in the order of their first port.
  std::vector<std::pair<const Device*, std::map<std::uint32_t, std::size_t>>> by_device() const {
    std::vector<std::pair<const Device*, std::map<std::uint32_t, std::size_t>>> devices;
    std::map<const Device*, std::size_t> places;
    for (std::size_t i = 0; i < found_.ports.size(); ++i) {
      const transport::LinkEnd& end = found_.ports[i];
      const auto [place, fresh] = places.try_emplace(end.device, devices.size());
      if (fresh) devices.emplace_back(end.device, std::map<std::uint32_t, std::size_t>());
      devices[place->second].second.emplace(end.port.value(), i);
    }
    return devices;
  }

  const transport::Fabric& fabric_;
  const Group& group_;
  Footprint found_;
  Makeup words_;
  bool comparable_ = true;
  std::map<std::pair<const Device*, std::uint32_t>, std::size_t> numbers_;  ///< by port
};

}  // namespace

Footprint footprint_of(const transport::Fabric& fabric, const Group& group, const std::vector<std::uint8_t>& classes) {
  Walk walk(fabric, group);
  for (const std::uint8_t traffic_class : classes) walk.add_class(traffic_class);
  return walk.result();
}

}  // namespace railyard::collective
