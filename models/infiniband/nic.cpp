#include "infiniband/nic.h"

#include <algorithm>

namespace railyard::infiniband {

using transport::Message;
using transport::Operation;
using transport::Transaction;

Nic::Nic(sc_core::sc_module_name name, transport::FabricContext& context, transport::Window window, transport::Lid lid,
         const NicTiming& timing)
    : Endpoint(name, context, window), lid_(lid), timing_(timing) {}

PortId Nic::decode(std::uint64_t address, transport::Lid, PortId ingress) const {
  if (transport::window_of(address) == window()) return PortId();
  return ingress == network() ? pcie() : network();
}

Nic::ReadEngine& Nic::engine(std::uint8_t channel) {
  ReadEngine& e = engines_[channel];
  if (!e.made) {
    e.requester = add_requester(pcie());
    e.forward_requester = add_requester(pcie());
    e.made = true;
  }
  return e;
}

void Nic::post(Message& message, transport::Lid remote) {
  posts_.push_back({&message, remote});
  context_.calendar.at(now() + timing_.doorbell, *this, kPostTag, 0);
}

void Nic::start_work() {
  const auto [message, remote] = posts_.front();
  posts_.pop_front();
  const std::uint64_t key = static_cast<std::uint64_t>(message->source) << 44 ^ static_cast<std::uint64_t>(message->destination) << 24 ^
                            static_cast<std::uint64_t>(message->traffic_class) << 20 ^ message->channel;
  const auto [found, fresh] = by_key_.try_emplace(key, static_cast<std::uint32_t>(queue_pairs_.size()));
  if (fresh) {
    queue_pairs_.emplace_back();
    queue_pairs_.back().transmit_requester = add_requester(network());
    queue_pairs_.back().channel = context_.plan.channel_of[message->traffic_class];
  }
  const std::uint32_t number = found->second;
  QueuePair& qp = queue_pairs_[number];
  qp.remote = remote;
  const bool idle = qp.work.empty();
  qp.work.push_back({message, remote, message->bytes, true});
  queued(network(), static_cast<std::int64_t>(message->bytes));
  if (idle) engine(qp.channel).waiting.insert(number);
  read(qp.channel);
}

void Nic::read(std::uint8_t channel) {
  ReadEngine& e = engine(channel);
  if (e.staged || e.waiting.empty()) return;
  const std::uint32_t number = e.waiting.next();
  QueuePair& qp = queue_pairs_[number];
  WorkRequest& work = qp.work.front();
  const Message& message = *work.message;
  const Bytes bytes = std::min(message.transaction_bytes, work.left_bytes);
  // As in the port rule, a limit smaller than one train still lets one train go.
  const Time when = later(reads_.below(std::max(timing_.read_bytes, bytes) - bytes + 1, now()),
                          buffer_.below(std::max(timing_.buffer_bytes, bytes) - bytes + 1, now()));
  if (when > now()) {
    if (when < e.retry) {  // Time::max(): a departure or a response will ask again
      e.retry = when;
      context_.calendar.at(when, *this, kReadTag, channel);
    }
    return;
  }
  reads_.take(bytes);
  buffer_.take(bytes);
  Transaction* t = context_.pool.acquire();
  t->message = work.message;
  t->operation = Operation::read_request;
  t->address = transport::window_base(message.source);
  t->reply_to = transport::window_base(window());
  t->requester = number;
  t->payload_bytes = bytes;
  t->traffic_class = message.traffic_class;
  t->virtual_channel = channel;
  t->first_of_message = work.first;
  t->head = t->tail = now();
  work.first = false;
  work.left_bytes -= bytes;
  e.waiting.served(number);
  if (work.left_bytes == 0) {
    qp.work.pop_front();
    if (qp.work.empty()) e.waiting.erase(number);
  }
  e.staged = true;
  enqueue(pcie(), e.requester, *t);
}

void Nic::receive(Transaction& t) {
  if (t.ingress == pcie()) {
    sc_assert(t.operation == Operation::read_response);
    return_credit(t, t.tail);
    reads_.give_back(t.tail, t.payload_bytes);
    const bool faster_out = ports_[kPciePort].receive_rate < ports_[kNetworkPort].egress.link().rate;
    t.tail += timing_.transmit;
    context_.calendar.at((faster_out ? t.first_packet : t.head) + timing_.transmit, *this, kTransmitTag,
                         reinterpret_cast<std::uint64_t>(&t));
    read(context_.plan.channel_of[t.traffic_class]);
  } else {
    const bool faster_out = ports_[kNetworkPort].receive_rate < ports_[kPciePort].egress.link().rate;
    context_.calendar.at(faster_out ? t.first_packet : t.head, *this, kForwardTag, reinterpret_cast<std::uint64_t>(&t));
  }
}

void Nic::transmit(Transaction& t) {
  const QueuePair& qp = queue_pairs_[t.requester];
  t.ingress = PortId();  // its bytes are the NIC's own now
  t.operation = Operation::write;
  t.virtual_channel = qp.channel;
  t.address = t.message->address;
  t.lid = qp.remote;
  queued(network(), -static_cast<std::int64_t>(t.payload_bytes));  // it was counted when its work request was posted
  enqueue(network(), qp.transmit_requester, t);
}

void Nic::forward(Transaction& t) { enqueue(pcie(), engine(t.virtual_channel).forward_requester, t); }

void Nic::departed(Transaction& t, PortId out, Time leaves) {
  const std::uint8_t channel = t.virtual_channel;
  const bool own_read = out == pcie() && t.operation == Operation::read_request;
  if (out == network()) buffer_.give_back(leaves, t.payload_bytes);
  Endpoint::departed(t, out, leaves);
  if (own_read) engines_[channel].staged = false;
  if (own_read || out == network()) read(channel);
}

void Nic::on_own_event(std::uint32_t tag, std::uint64_t data) {
  switch (tag) {
    case kPostTag: start_work(); break;
    case kTransmitTag: transmit(*reinterpret_cast<Transaction*>(data)); break;
    case kForwardTag: forward(*reinterpret_cast<Transaction*>(data)); break;
    case kReadTag:
      engines_[data].retry = Time::max();
      read(static_cast<std::uint8_t>(data));
      break;
    default: Endpoint::on_own_event(tag, data);
  }
}

transport::Path Nic::path(const transport::Endpoint& memory, PortId memory_port, Time memory_latency,
                          transport::Window destination, transport::Lid remote) const {
  transport::Path path;
  path.fixed = timing_.doorbell + memory_latency + timing_.transmit;
  Time request_out;
  for (const transport::Hop& hop : transport::walk(*this, pcie(), transport::window_base(memory.window()), 0, Operation::read_request))
    request_out += hop.link().latency + hop.link().rate.time_for(hop.link().packet.read_request_bytes);
  path.fixed += request_out;
  transport::Lane lane;
  lane.hops = transport::walk(memory, memory_port, transport::window_base(window()), 0, Operation::read_response);
  Time loop = request_out + memory_latency;
  for (const transport::Hop& hop : lane.hops) loop += hop.link().latency;
  for (const transport::Hop& hop : transport::walk(*this, network(), transport::window_base(destination), remote)) lane.hops.push_back(hop);
  path.lanes.push_back(lane);
  if (timing_.read_bytes != 0 && loop != Time())
    path.limit = Rate::bytes_per_second(static_cast<std::uint64_t>(static_cast<double>(timing_.read_bytes) / loop.seconds()));
  return path;
}

}  // namespace railyard::infiniband
