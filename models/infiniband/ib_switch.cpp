#include "infiniband/ib_switch.h"

#include <algorithm>

#include "infiniband/ecmp.h"
#include "transport/device/queue_pairs.h"

namespace railyard::infiniband {

using transport::Lid;
using transport::Transaction;

namespace {

constexpr std::uint32_t kNoGroup = ~0u;

std::uint64_t hash_of_queue_pair(const Transaction& t, std::uint64_t seed) {
  if (t.message == nullptr) return ecmp_hash(seed, {t.lid});
  const transport::Message& m = *t.message;
  const std::uint32_t number = transport::in_set(m.queue_pair), set = m.queue_pair - number;
  return ecmp_hash(seed, {t.lid, m.source, m.destination | set, number << 8 | m.traffic_class});
}

}  // namespace

void IbSwitch::map_to_group(Lid lid, std::uint32_t group) {
  if (lid >= group_of_lid_.size()) group_of_lid_.resize(lid + 1, kNoGroup);
  group_of_lid_[lid] = group;
}

void IbSwitch::set_group(std::uint32_t group, Ports ports) {
  if (group >= groups_.size()) groups_.resize(group + 1);
  groups_[group] = std::move(ports);
}

const IbSwitch::Ports* IbSwitch::group_of(Lid lid, PortId ingress) const {
  if (lid >= group_of_lid_.size() || group_of_lid_[lid] == kNoGroup) return nullptr;
  const Ports& ports = groups_[group_of_lid_[lid]];
  const bool from_above =
      turns_around_ && ingress.valid() && std::find(ports.begin(), ports.end(), ingress) != ports.end();
  return ports.empty() || from_above ? nullptr : &ports;
}

PortId IbSwitch::decode(std::uint64_t address, Lid lid, PortId ingress) const {
  const Ports* ports = group_of(lid, ingress);
  return ports != nullptr ? (*ports)[lid / stride_ % ports->size()] : Switch::decode(address, lid, ingress);
}

bool IbSwitch::has_choice(Lid lid) const {
  const Ports* ports = group_of(lid);
  return routing_ != Routing::deterministic && ports != nullptr && ports->size() > 1;
}

PortId IbSwitch::route(const Transaction& t) {
  const Ports* const group = has_choice(t.lid) ? group_of(t.lid, t.ingress) : nullptr;
  if (group == nullptr) return Switch::route(t);
  const Ports& ports = *group;
  return routing_ == Routing::ecmp ? ports[hash_of_queue_pair(t, seed_) % ports.size()] : first_free(ports);
}

PortId IbSwitch::first_free(const Ports& ports) {
  const auto busy = [&](PortId id) {
    const transport::Device::Port& p = *ports_[id.value()];
    return since(p.egress.free(), now()) + p.egress.link().rate.time_for(p.counters.queued_bytes);
  };
  const auto n = static_cast<std::uint32_t>(ports.size());
  std::uint32_t best = turn_ % n;
  for (std::uint32_t i = 1; i < n; ++i)
    if (busy(ports[(turn_ + i) % n]) < busy(ports[best])) best = (turn_ + i) % n;
  turn_ = best + 1;
  return ports[best];
}

void IbSwitch::receive(Transaction& t) {
  // The port is chosen when the head arrives, not when it was sent, because the load may change in between.
  if (routing_ == Routing::adaptive && has_choice(t.lid) && now() < t.head) {
    context_.calendar.at(t.head, *this, kChooseTag, reinterpret_cast<std::uint64_t>(&t));
  } else {
    Switch::receive(t);
  }
}

void IbSwitch::on_own_event(std::uint32_t tag, std::uint64_t data) {
  if (tag == kChooseTag) {
    Switch::receive(*reinterpret_cast<Transaction*>(data));
  } else {
    Switch::on_own_event(tag, data);
  }
}

}  // namespace railyard::infiniband
