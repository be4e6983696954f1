#include "transport/switch.h"

namespace railyard::transport {

Switch::Switch(sc_core::sc_module_name name, FabricContext& context, DecodeBy decode_by)
    : Device(name, context), decode_by_(decode_by) {}

void Switch::end_of_elaboration() { queues_.resize(ports() * kVirtualChannels); }

PortId Switch::decode(std::uint64_t address, Lid lid, PortId) const {
  return decoder_.find(decode_by_ == DecodeBy::window ? window_of(address) : lid);
}

void Switch::receive(Transaction& t) {
  t.egress = decode(t.address, t.lid, t.ingress);
  if (!t.egress.valid()) SC_REPORT_FATAL(name(), "no route for an address");
  // Towards a faster output a packet must be whole before it can leave without a gap.
  const bool faster_out = ports_[t.ingress.value()].receive_rate < ports_[t.egress.value()].egress.link().rate;
  context_.calendar.at(faster_out ? t.first_packet : t.head, *this, kArriveTag, reinterpret_cast<std::uint64_t>(&t));
}

void Switch::on_own_event(std::uint32_t, std::uint64_t data) { arrive(*reinterpret_cast<Transaction*>(data)); }

void Switch::arrive(Transaction& t) {
  t.waiting_since = now();
  t.held_up_bytes = t.payload_bytes;
  TransactionQueue& q = queue(t.ingress.value(), t.virtual_channel);
  const bool first = q.empty();
  q.push(&t);
  queued(t.egress, static_cast<std::int64_t>(t.carried_bytes()));
  if (first) request(t.egress, t.virtual_channel, t.ingress.value());
}

const Transaction& Switch::front(PortId, std::uint8_t channel, std::uint32_t requester) {
  return *queue(requester, channel).front();
}

Transaction& Switch::take(PortId, std::uint8_t channel, std::uint32_t requester) {
  return *queue(requester, channel).pop();
}

void Switch::departed(Transaction& t, PortId, Time leaves) {
  return_credit(t, leaves);
  TransactionQueue& q = queue(t.ingress.value(), t.virtual_channel);
  if (!q.empty()) request(q.front()->egress, t.virtual_channel, t.ingress.value());
}

}  // namespace railyard::transport
