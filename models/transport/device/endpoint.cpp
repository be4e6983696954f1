#include "transport/device/endpoint.h"

#include <algorithm>

namespace railyard::transport {

Endpoint::Endpoint(sc_core::sc_module_name name, FabricContext& context, Window window)
    : Device(name, context), window_(window) {
  if (window >= context.endpoints.size()) context.endpoints.resize(window + 1, nullptr);
  context.endpoints[window] = this;
}

PortId Endpoint::decode(std::uint64_t, Lid, PortId) const { return PortId(); }

Endpoint::Outlet& Endpoint::outlet(PortId out) {
  if (out.value() >= outlets_.size()) outlets_.resize(ports());
  return outlets_[out.value()];
}

std::uint32_t Endpoint::add_requester(PortId out) {
  Outlet& o = outlet(out);
  o.requesters.emplace_back();
  return static_cast<std::uint32_t>(o.requesters.size() - 1);
}

std::uint32_t Endpoint::requester_of(PortId out, const RequesterKey& key) {
  Outlet& o = outlet(out);
  if (o.latest != kNobody && key == o.latest_key) return o.latest;
  const auto [found, fresh] = o.by_key.try_emplace(key, static_cast<std::uint32_t>(o.requesters.size()));
  if (fresh) o.requesters[add_requester(out)].key = key;
  o.latest_key = key;
  o.latest = found->second;
  return o.latest;
}

std::uint32_t Endpoint::requester_of(PortId out, const Message& m) {
  return requester_of(out, {false, m.kind, m.traffic_class, m.source, m.target(), m.queue_pair});
}

std::uint32_t Endpoint::responder_of(PortId out, std::uint8_t vc) {
  std::uint32_t& responder = outlet(out).responders[vc - kFirstResponseVc];
  if (responder == kNobody) {
    responder = add_requester(out);
    outlet(out).requesters[responder].key.queue = vc;
  }
  return responder;
}

void Endpoint::add_requester(PortId out, const RequesterKey& key) {
  if (key.own) {
    responder_of(out, static_cast<std::uint8_t>(key.queue));
  } else {
    requester_of(out, key);
  }
}

Endpoint::Part Endpoint::whole_of(Message& message) const {
  Part part;
  part.message = &message;
  part.bytes = message.bytes;
  part.address = message.address;
  part.rate = message.source_rate;
  switch (message.kind) {
    case MessageKind::write: return part;
    case MessageKind::read: part.kind = TransactionKind::read_request; break;
    case MessageKind::multicast: part.kind = TransactionKind::multicast; break;
    case MessageKind::reduce: part.kind = TransactionKind::reduce_request; break;
  }
  part.group = message.group;
  part.reply_to = window_base(window_);
  return part;
}

void Endpoint::inject(PortId out, const Part& part) {
  if (lost(out)) {
    context_.losses->on_lost(*part.message, part.address, part.bytes);
    return;
  }
  const std::uint32_t number = requester_of(out, *part.message);
  Requester& requester = outlet(out).requesters[number];
  const bool idle = requester.ready.empty();
  requester.parts.push_back(part);
  requester.parts.back().whole_bytes = part.bytes;
  requester.parts.back().stalled_before = ports_[out.value()]->stalled;
  queued(out, asks(part.kind) ? 0 : static_cast<std::int64_t>(part.bytes));
  if (idle && stage(out, requester)) request_staged(out, number);
}

void Endpoint::request_staged(PortId out, std::uint32_t number) {
  const Transaction& t = *outlet(out).requesters[number].ready.front();
  if (t.head <= now()) {
    request(out, t.virtual_channel, number);
  } else {
    context_.calendar.at(t.head, *this, kWrittenTag, static_cast<std::uint64_t>(out.value()) << 32 | number);
  }
}

bool Endpoint::stage(PortId out, Requester& requester) {
  if (requester.parts.empty()) return false;
  Part& part = requester.parts.front();
  const Message& message = *part.message;
  Transaction* t = context_.pool.acquire();
  t->message = part.message;
  t->kind = part.kind;
  t->address = part.address;
  t->lid = part.lid;
  t->reply_to = part.reply_to;
  t->group = part.group;
  t->payload_bytes = std::min(message.transaction_bytes, part.bytes);
  t->engine_payload_bytes = part.engine_payload_bytes;
  t->traffic_class = message.traffic_class;
  t->virtual_channel =
      part.kind == TransactionKind::read_request ? kRequestVc : context_.plan.vc_of[message.traffic_class];
  t->first_of_message = part.first;
  t->head = later(now(), part.written);
  // Bytes that the source has not written yet do not wait for the port.
  t->waiting_since = later(part.first ? message.started : requester.last_left, part.written);
  if (part.meter != nullptr) wait_for_meter(part, *t);
  t->tail = t->head;
  if (part.rate != Rate()) t->tail = part.written = t->head + part.rate.time_for(t->payload_bytes);
  t->stalled_before = part.first ? part.stalled_before : ports_[out.value()]->stalled;
  t->held_up_bytes = part.whole_bytes;
  part.first = false;
  part.bytes -= t->payload_bytes;
  part.address += t->payload_bytes;
  if (part.bytes == 0) requester.parts.pop_front();
  requester.ready.push(t);
  return true;
}

void Endpoint::wait_for_meter(Part& part, Transaction& t) {
  Meter& meter = *part.meter;
  // Time for which the meter counts earlier bytes of this part is not a wait.
  const Time waited = since(meter.free(), later(t.waiting_since, part.metered));
  if (waited != Time())
    part.message->waited_at(meter.counters, share(waited, part.whole_bytes, std::max<Bytes>(1, part.message->bytes)));
  t.head = later(t.head, meter.free());
  t.waiting_since = later(t.waiting_since, t.head);
  meter.take(t.head, t.payload_bytes);
  part.metered = meter.free();
  metered_until_ = later(metered_until_, meter.free());
}

void Endpoint::cut_off(Transaction& t, PortId) {
  if (t.ingress.valid()) return_credit(t, now());
  lose(t);
}

void Endpoint::take_back(PortId out) {
  for (Requester& requester : outlet(out).requesters) {
    while (!requester.ready.empty()) {
      Transaction& t = *requester.ready.pop();
      queued(out, -static_cast<std::int64_t>(t.carried_bytes()));
      cut_off(t, out);
    }
    for (; !requester.parts.empty(); requester.parts.pop_front()) {
      const Part& part = requester.parts.front();
      queued(out, asks(part.kind) ? 0 : -static_cast<std::int64_t>(part.bytes));
      context_.losses->on_lost(*part.message, part.address, part.bytes);
    }
  }
}

void Endpoint::enqueue(PortId out, std::uint32_t number, Transaction& t) {
  if (lost(out)) {
    cut_off(t, out);
    return;
  }
  Requester& requester = outlet(out).requesters[number];
  waits(t, out);
  const bool idle = requester.ready.empty();
  requester.ready.push(&t);
  queued(out, static_cast<std::int64_t>(t.carried_bytes()));
  if (idle) request(out, t.virtual_channel, number);
}

const Transaction& Endpoint::front(PortId out, std::uint8_t, std::uint32_t requester) {
  return *outlets_[out.value()].requesters[requester].ready.front();
}

Transaction& Endpoint::take(PortId out, std::uint8_t, std::uint32_t requester) {
  outlets_[out.value()].taken = requester;
  return *outlets_[out.value()].requesters[requester].ready.pop();
}

void Endpoint::departed(Transaction& t, PortId out, Time leaves) {
  if (t.ingress.valid()) return_credit(t, leaves);
  const std::uint32_t number = outlets_[out.value()].taken;
  Requester& requester = outlets_[out.value()].requesters[number];
  requester.last_left = leaves;
  if (t.message != nullptr && t.message->tell_left && t.fork == nullptr)
    count_left(*t.message, t.payload_bytes, leaves);
  if (!requester.ready.empty()) {
    request(out, requester.ready.front()->virtual_channel, number);
  } else if (stage(out, requester)) {
    request_staged(out, number);
  }
}

void Endpoint::count_left(Message& message, Bytes bytes, Time leaves) {
  message.left += bytes;
  message.left_at = later(message.left_at, leaves);
  if (message.left < message.bytes) return;
  message.tell_left = false;  // notify only once
  context_.calendar.at(message.left_at, *this, kLeftTag, reinterpret_cast<std::uint64_t>(&message));
}

void Endpoint::receive(Transaction& t) {
  if (asks(t.kind)) {
    respond(t);
  } else {
    land(t);
  }
}

void Endpoint::respond(Transaction& t) {
  return_credit(t, t.tail);
  t.egress = t.ingress;
  t.ingress = PortId();
  t.tail += read_latency();
  context_.calendar.at(t.head + read_latency(), *this, kRespondTag, reinterpret_cast<std::uint64_t>(&t));
}

void Endpoint::answer(Transaction& t) {
  t.kind = t.kind == TransactionKind::read_request ? TransactionKind::read_response : TransactionKind::reduce_response;
  t.address = t.reply_to;
  t.virtual_channel = context_.plan.response_vc_of(t.traffic_class);
  t.engine_payload_bytes = completion_payload_bytes();
  enqueue(t.egress, responder_of(t.egress, t.virtual_channel), t);
}

void Endpoint::land(Transaction& t) {
  Message& message = *t.message;
  message.landed += t.payload_bytes;
  message.finished = later(message.finished, t.tail);
  return_credit(t, t.tail);
  context_.pool.release(&t);
  if (message.landed + message.undeliverable == message.to_land) complete(message);
}

void Endpoint::complete(Message& message) {
  context_.calendar.at(message.finished, *this, kDeliveredTag, reinterpret_cast<std::uint64_t>(&message));
}

void Endpoint::on_own_event(std::uint32_t tag, std::uint64_t data) {
  if (tag == kRespondTag) {
    answer(*reinterpret_cast<Transaction*>(data));
    return;
  }
  if (tag == kWrittenTag) {
    const PortId out(static_cast<std::uint32_t>(data >> 32));
    const auto number = static_cast<std::uint32_t>(data);
    if (lost(out)) return;  // and was taken back
    request(out, outlet(out).requesters[number].ready.front()->virtual_channel, number);
    return;
  }
  if (tag == kLeftTag) {
    Message& message = *reinterpret_cast<Message*>(data);
    message.client->on_left(message);
    return;
  }
  Message& message = *reinterpret_cast<Message*>(data);
  if (context_.listener != nullptr) context_.listener->on_delivered(message, now());
  if (message.undeliverable != 0) {
    context_.ledger.undeliverable(message);
  } else {
    context_.ledger.delivered(message);
  }
}

}  // namespace railyard::transport
