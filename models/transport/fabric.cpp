#include "transport/fabric.h"

#include <stdexcept>

#include "transport/fluid/fluid.h"

namespace railyard::transport {

Fabric::Fabric(const VcPlan& plan, Bytes transaction_bytes)
    : calendar_("calendar"),
      context_{calendar_, pool_, ledger_, plan, nullptr},
      routes_(transaction_bytes),
      quiet_watch_(calendar_, pool_, devices_) {}

Fabric::~Fabric() = default;

GroupId Fabric::add_group(const std::vector<Window>& members) {
  if (members.empty()) throw std::logic_error("a group without members");
  context_.groups.push_back(members);
  return static_cast<GroupId>(context_.groups.size() - 1);
}

void Fabric::keep_line_users() {
  for (Device* device : devices_)
    for (std::uint32_t p = 0; p < device->ports(); ++p) {
      PortCounters& counters = device->port(PortId(p)).counters;
      if (counters.users == nullptr) counters.users = &line_users_.emplace_back();
    }
}

Time Fabric::uncontended(Window source, Window destination, std::uint8_t traffic_class, Bytes bytes, Engine engine) {
  Message message;
  message.source = source;
  message.destination = destination;
  message.traffic_class = traffic_class;
  message.bytes = bytes;
  message.engine = engine;
  return routes_.uncontended(message);
}

Message& Fabric::send(const Message& wanted) {
  Message& message = *ledger_.acquire(wanted);
  message.started = now();
  if (of_group(message.kind)) {
    if (message.bytes == 0) throw std::logic_error("a multicast or a reduction of no bytes");
    if (message.kind == MessageKind::multicast) message.to_land *= context_.groups.at(message.group).size();
  }
  // Fluid streams cannot handle lost links: if links can fail, all messages are sent as trains.
  if (fluid_ != nullptr && context_.losses == nullptr && fluid_->send(message)) return message;
  Routes::Route& route = routes_.of(wanted);
  message.transaction_bytes = route.transaction_bytes;
  message.uncontended = route.uncontended(wanted.bytes);
  // The last byte of a slow writer leaves when it is written.
  if (wanted.source_rate != Rate())
    message.uncontended = later(message.uncontended, wanted.source_rate.time_for(wanted.bytes) + route.last_byte);
  if (context_.listener != nullptr) context_.listener->on_send(message, now());
  ledger_.begun(message);
  routes_.sender(wanted.source)->send(message);
  return message;
}

std::vector<FluidStreamKey> Fabric::streams_since(const std::vector<Window>& sources, Time since) const {
  return fluid_ != nullptr ? fluid_->streams_since(sources, since) : std::vector<FluidStreamKey>();
}

std::optional<std::uint32_t> Fabric::stream_number(const FluidStreamKey& key) const {
  return fluid_ != nullptr ? fluid_->number_of(key) : std::nullopt;
}

Bytes Fabric::unreturned_credit() const {
  Bytes sum = 0;
  for (const Device* device : devices_)
    for (std::uint32_t p = 0; p < device->ports(); ++p)
      for (std::uint8_t vc = 0; vc < kVirtualChannels; ++vc) sum += device->port(PortId(p)).egress.unreturned(vc);
  return sum;
}

}  // namespace railyard::transport
