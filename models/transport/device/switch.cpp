#include "transport/device/switch.h"

namespace railyard::transport {

Switch::Switch(sc_core::sc_module_name name, FabricContext& context, DecodeBy decode_by, Queues queues)
    : Device(name, context), decode_by_(decode_by), queues_by_(queues) {}

PortId Switch::decode(std::uint64_t address, Lid lid, PortId ingress) const {
  return decoder_.find(decode_by_ == DecodeBy::window ? window_of(address) : lid, ingress);
}

TransactionQueue& Switch::queue(PortId out, std::uint8_t vc, std::uint32_t input) {
  const std::size_t row = (queues_by_ == Queues::by_input ? 0 : out.value() * kVirtualChannels) + vc;
  if (row >= queues_.size()) queues_.resize(row + 1);
  if (queues_[row].empty()) queues_[row].resize(ports());
  return queues_[row][input];
}

Time Switch::ready(const Transaction& t, PortId out) const {
  return ports_[t.ingress.value()]->receive_rate < ports_[out.value()]->egress.link().rate ? t.first_packet : t.head;
}

void Switch::receive(Transaction& t) {
  t.egress = route(t);
  if (!t.egress.valid() || lost(t.egress)) {
    if (context_.losses == nullptr) SC_REPORT_FATAL(name(), "no route for an address");
    give_up(t);
    return;
  }
  context_.calendar.at(ready(t, t.egress), *this, kArriveTag, reinterpret_cast<std::uint64_t>(&t));
}

void Switch::on_own_event(std::uint32_t, std::uint64_t data) { arrive(*reinterpret_cast<Transaction*>(data)); }

void Switch::arrive(Transaction& t) {
  if (lost(t.egress)) {  // failed since the transaction was received
    t.egress = route(t);
    if (!t.egress.valid() || lost(t.egress)) {
      give_up(t);
      return;
    }
  }
  waits(t, t.egress);
  TransactionQueue& q = queue(t.egress, t.virtual_channel, t.ingress.value());
  const bool first = q.empty();
  q.push(&t);
  queued(t.egress, static_cast<std::int64_t>(t.carried_bytes()));
  if (first) request(t.egress, t.virtual_channel, t.ingress.value());
}

void Switch::give_up(Transaction& t) {
  left(t, t.egress, now());
  lose(t);
}

void Switch::take_back(PortId out) {
  std::vector<Transaction*> taken;
  for (auto& row : queues_) {
    for (std::uint32_t input = 0; input < row.size(); ++input) {
      TransactionQueue kept;
      const Transaction* const was_front = row[input].front();
      while (!row[input].empty()) {
        Transaction* const t = row[input].pop();
        if (t->egress == out) {
          taken.push_back(t);
        } else {
          kept.push(t);
        }
      }
      row[input] = kept;
      if (!kept.empty() && kept.front() != was_front)
        request(kept.front()->egress, kept.front()->virtual_channel, input);
    }
  }
  for (Transaction* t : taken) {
    queued(out, -static_cast<std::int64_t>(t->carried_bytes()));
    arrive(*t);
  }
}

const Transaction& Switch::front(PortId out, std::uint8_t vc, std::uint32_t requester) {
  return *queue(out, vc, requester).front();
}

Transaction& Switch::take(PortId out, std::uint8_t vc, std::uint32_t requester) {
  return *queue(out, vc, requester).pop();
}

void Switch::departed(Transaction& t, PortId out, Time leaves) {
  const std::uint32_t input = t.ingress.value();
  const std::uint8_t vc = t.virtual_channel;
  left(t, out, leaves);
  TransactionQueue& q = queue(out, vc, input);
  if (!q.empty()) request(q.front()->egress, vc, input);
}

void Switch::left(Transaction& t, PortId, Time leaves) { return_credit(t, leaves); }

}  // namespace railyard::transport
