#include "transport/fabric.h"

#include <stdexcept>

namespace railyard::transport {

Fabric::Fabric(const ChannelPlan& plan, Bytes transaction_bytes)
    : calendar_("calendar"),
      context_{calendar_, pool_, ledger_, plan, nullptr},
      transaction_bytes_(transaction_bytes),
      recovery_(*this),
      faults_(context_, *this, recovery_) {
#ifndef NDEBUG
  watch_invariants();
#endif
}

void Fabric::add_listener(FabricListener& listener) {
  listeners_.add(listener);
  context_.listener = context_.listener == nullptr ? &listener : &listeners_;  // one is told without a detour
}

void Fabric::watch_invariants() {
  if (invariants_ != nullptr) return;
  invariants_ = std::make_unique<Invariants>(context_);
  add_listener(*invariants_);
}

void Fabric::expect_settled() const {
  if (invariants_ != nullptr) invariants_->expect_settled(devices_);
}

void Fabric::add_sender(Window window, Sender& sender) {
  if (window >= sources_.size()) sources_.resize(window + 1);
  sources_[window].sender = &sender;
}

Path Sender::path_of(const Message& message) const {
  if (message.kind != MessageKind::write) throw std::logic_error("this source only writes");
  return path_to(message.destination, message.traffic_class, message.engine);
}

GroupId Fabric::add_group(const std::vector<Window>& members) {
  if (members.empty()) throw std::logic_error("a group without members");
  context_.groups.push_back(members);
  return static_cast<GroupId>(context_.groups.size() - 1);
}

Path Fabric::path(Window source, Window destination, std::uint8_t traffic_class, Engine engine) const {
  return sources_[source].sender->path_to(destination, traffic_class, engine);
}

Bytes Fabric::transaction_bytes(const Path& path) const {
  return transaction_bytes_ != 0 ? transaction_bytes_ : automatic_transaction_bytes(path);
}

Fabric::Route& Fabric::route(const Message& m) {
  const std::uint64_t key = m.way();
  Source& source = sources_[m.source];
  if (source.latest != nullptr && key == source.latest_key) return *source.latest;
  const auto [found, fresh] = routes_.try_emplace(key);
  Route& route = found->second;
  if (fresh) {
    route.path = path_of(m);
    route.transaction_bytes = transaction_bytes(route.path);
    route.last_byte = last_byte_time(route.path, route.transaction_bytes);
  }
  source.latest_key = key;
  source.latest = &route;
  return route;
}

Time Fabric::uncontended(Route& route, Bytes bytes) {
  if (bytes == route.latest_bytes && !route.uncontended.empty()) return route.latest_uncontended;
  const auto [found, fresh] = route.uncontended.try_emplace(bytes);
  if (fresh) found->second = uncontended_time(route.path, bytes, route.transaction_bytes);
  route.latest_bytes = bytes;
  route.latest_uncontended = found->second;
  return found->second;
}

Time Fabric::uncontended(Window source, Window destination, std::uint8_t traffic_class, Bytes bytes, Engine engine) {
  Message message;
  message.source = source;
  message.destination = destination;
  message.traffic_class = traffic_class;
  message.bytes = bytes;
  message.engine = engine;
  return uncontended(message);
}

Message& Fabric::send(const Message& wanted) {
  Message& message = *ledger_.acquire(wanted);
  message.started = now();
  if (of_group(message.kind)) {
    if (message.bytes == 0) throw std::logic_error("a multicast or a reduction of no bytes");
    if (message.kind == MessageKind::multicast) message.to_land *= context_.groups.at(message.group).size();
  }
  // Streams know no loss: where links can be lost, everything goes in trains.
  if (fluid_ != nullptr && context_.losses == nullptr && fluid_->send(message)) return message;
  Route& way = route(wanted);
  message.transaction_bytes = way.transaction_bytes;
  message.uncontended = uncontended(way, wanted.bytes);
  // A slow writer's last byte leaves when it is written.
  if (wanted.source_rate != Rate())
    message.uncontended = later(message.uncontended, wanted.source_rate.time_for(wanted.bytes) + way.last_byte);
  if (context_.listener != nullptr) context_.listener->on_send(message, now());
  ledger_.begun(message);
  sources_[wanted.source].sender->send(message);
  return message;
}

void Fabric::model_as_fluid() {
  for (Device* device : devices_)
    for (std::uint32_t p = 0; p < device->ports(); ++p)
      if (device->port(PortId(p)).peer != nullptr) model_as_fluid(*device, PortId(p));
}

void Fabric::model_as_fluid(Device& device, PortId port) {
  for (const Device* end : {&device, device.port(port).peer})
    if (end->needs_trains())
      throw std::invalid_argument(
          std::string(end->name()) +
          " serves a TLM model outside of the fabric, which fluid streams do not call; use trains");
  if (fluid_ == nullptr) fluid_ = std::make_unique<Fluid>(*this);
  fluid_->add(device, port);
}

void Fabric::on_links_changed() {
  for (Source& source : sources_) source.latest = nullptr;
  routes_.clear();
  if (router_ != nullptr) router_->on_links_changed();
  for (Device* device : devices_) device->links_changed();
  if (fluid_ != nullptr) fluid_->links_changed();
}

std::uint64_t Fabric::hop_transactions() const {
  std::uint64_t sum = 0;
  for (Device* device : devices_)
    for (std::uint32_t p = 0; p < device->ports(); ++p) sum += device->port(PortId(p)).counters.transactions;
  return sum;
}

Bytes Fabric::unreturned_credit() const {
  Bytes sum = 0;
  for (const Device* device : devices_)
    for (std::uint32_t p = 0; p < device->ports(); ++p)
      for (std::uint8_t vc = 0; vc < kVirtualChannels; ++vc) sum += device->port(PortId(p)).egress.unreturned(vc);
  return sum;
}

}  // namespace railyard::transport
