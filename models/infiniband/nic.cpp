#include "infiniband/nic.h"

#include <algorithm>

namespace railyard::infiniband {

using transport::Message;
using transport::MessageKind;
using transport::Transaction;
using transport::TransactionKind;

Nic::Nic(sc_core::sc_module_name name, transport::FabricContext& context, transport::Window window, transport::Lid lid,
         const NicTiming& timing)
    : Reader(name, context, window, PortId(kPciePort), {timing.read_bytes, timing.buffer_bytes, timing.transmit, 0}),
      lid_(lid),
      timing_(timing) {}

PortId Nic::decode(std::uint64_t address, transport::Lid, PortId ingress) const {
  if (transport::window_of(address) == window()) return PortId();
  return ingress == network() ? pcie() : network();
}

void Nic::post(Message& message, transport::Lid remote, Bytes bytes) {
  if (message.kind == MessageKind::read) {
    post_direct({&message, remote, bytes});
    return;
  }
  posts_.push_back({&message, remote, bytes});
  context_.calendar.at(now() + timing_.doorbell, *this, kPostTag, 0);
}

void Nic::post_from_host(Message& message, transport::Lid remote) {
  if (message.kind == MessageKind::read || message.bytes > timing_.inline_bytes) {
    post(message, remote, message.bytes);
  } else {
    post_direct({&message, remote, message.bytes});
  }
}

void Nic::post_direct(const WorkRequest& work) {
  direct_posts_.push_back(work);
  context_.calendar.at(now() + timing_.doorbell + timing_.transmit, *this, kDirectTag, 0);
}

Nic::WorkRequest Nic::next_of(transport::Ring<WorkRequest>& posts) {
  const WorkRequest work = posts.front();
  posts.pop_front();
  return work;
}

void Nic::start_direct() {
  const WorkRequest work = next_of(direct_posts_);
  if (work.message->kind == MessageKind::read) {
    ask(work);
    return;
  }
  Part part = whole_of(*work.message);
  part.lid = work.remote;
  inject(network(), part);
}

void Nic::ask(const WorkRequest& work) {
  Message& message = *work.message;
  Transaction& t = *context_.pool.acquire();
  t.message = &message;
  t.kind = TransactionKind::read_request;
  t.address = transport::window_base(message.from());
  t.lid = work.remote;
  t.reply_to = transport::window_base(window());
  t.reply_lid = lid_;
  t.payload_bytes = work.bytes;
  t.traffic_class = message.traffic_class;
  t.virtual_channel = context_.plan.vc_of[message.traffic_class];  // NICs sink requests, so these block no response
  t.head = t.tail = now();
  enqueue(network(), requester_of(network(), message), t);
}

void Nic::answer_read(Transaction& request) {
  carry({request.message, request.reply_lid, request.payload_bytes});
  context_.pool.release(&request);
}

bool Nic::reaches(transport::Window source, transport::Window destination, transport::Lid remote) const {
  const std::uint64_t to = transport::window_base(destination);
  const std::vector<transport::Hop> hops = transport::walk(*this, network(), to, remote);
  return is_readable(source) && transport::is_open(hops) && transport::arrival(hops, to).endpoint != nullptr;
}

bool Nic::can_read(std::uint32_t flow, const Message& message) const {
  return reaches(message.from(), message.to(), queue_pairs_[flow].remote);
}

void Nic::cut_off(Transaction& t, PortId out) {
  if (out == network() && t.requester != 0) let_go(t.virtual_channel, t.payload_bytes, now());
  Reader::cut_off(t, out);
}

void Nic::carry(const WorkRequest& work) {
  const std::uint32_t number = flow_of(*work.message, work.message->from());
  if (number == queue_pairs_.size())
    queue_pairs_.push_back({add_requester(network()), work.remote, context_.plan.vc_of[work.message->traffic_class]});
  queue_pairs_[number].remote = work.remote;
  queued(network(), static_cast<std::int64_t>(work.bytes));
  pull(number, *work.message, work.bytes);
}

void Nic::receive(Transaction& t) {
  if (t.ingress == pcie()) {
    sc_assert(t.kind == TransactionKind::read_response);
    return_credit(t, t.tail);
    completed(t);
    const bool faster_out = ports_[kPciePort]->receive_rate < ports_[kNetworkPort]->egress.link().rate;
    t.tail += timing_.transmit;
    context_.calendar.at((faster_out ? t.first_packet : t.head) + timing_.transmit, *this, kTransmitTag,
                         reinterpret_cast<std::uint64_t>(&t));
  } else if (asks(t.kind)) {
    return_credit(t, t.tail);
    context_.calendar.at(t.first_packet, *this, kAnswerTag, reinterpret_cast<std::uint64_t>(&t));
  } else {
    const bool faster_out = ports_[kNetworkPort]->receive_rate < ports_[kPciePort]->egress.link().rate;
    context_.calendar.at(faster_out ? t.first_packet : t.head, *this, kForwardTag, reinterpret_cast<std::uint64_t>(&t));
  }
}

void Nic::transmit(Transaction& t) {
  const QueuePair& qp = queue_pairs_[flow_of(t)];
  t.ingress = PortId();  // the bytes now belong to the NIC
  t.kind = TransactionKind::write;
  t.engine_payload_bytes = 0;
  t.virtual_channel = qp.vc;
  t.address = transport::window_base(t.message->to()) + t.message->offset;
  t.lid = qp.remote;
  queued(network(), -static_cast<std::int64_t>(t.payload_bytes));  // counted by carry()
  enqueue(network(), qp.transmit_requester, t);
}

void Nic::forward(Transaction& t) {
  std::optional<std::uint32_t>& requester = forward_requesters_[t.virtual_channel];
  if (!requester) requester = add_requester(pcie());
  enqueue(pcie(), *requester, t);
}

void Nic::departed(Transaction& t, PortId out, Time leaves) {
  const bool was_read = t.requester != 0;  // false if the work request carried the data
  if (out == network() && was_read) let_go(t.virtual_channel, t.payload_bytes, leaves);
  Reader::departed(t, out, leaves);
  if (out == network()) read();
}

void Nic::on_own_event(std::uint32_t tag, std::uint64_t data) {
  switch (tag) {
    case kPostTag: carry(next_of(posts_)); break;
    case kTransmitTag: transmit(*reinterpret_cast<Transaction*>(data)); break;
    case kForwardTag: forward(*reinterpret_cast<Transaction*>(data)); break;
    case kDirectTag: start_direct(); break;
    case kAnswerTag: answer_read(*reinterpret_cast<Transaction*>(data)); break;
    default: Reader::on_own_event(tag, data);
  }
}

transport::Path Nic::path(transport::Window memory, transport::Window destination, transport::Lid remote) const {
  transport::Path path = carried_path(memory, destination, remote);
  path.fixed += timing_.doorbell;
  return path;
}

transport::Path Nic::read_path(transport::Window memory, transport::Window destination, transport::Lid remote) const {
  std::vector<transport::Hop> request =
      transport::walk(*this, network(), transport::window_base(memory), remote, TransactionKind::read_request);
  const Nic* answers = nullptr;
  const auto home = std::find_if(request.begin(), request.end(), [&](const transport::Hop& hop) {
    const auto* nic = dynamic_cast<const Nic*>(hop.device);
    if (nic != nullptr && nic != this) answers = nic;
    return answers != nullptr;
  });
  if (answers == nullptr) SC_REPORT_FATAL(name(), "the network has no path to the memory of an RDMA read");
  request.erase(home, request.end());
  transport::Path path = answers->carried_path(memory, destination, lid_);
  const transport::LinkDirection& last = request.back().link();
  path.fixed += timing_.doorbell + timing_.transmit + transport::request_time(request) +
                last.rate.time_for(last.packet.read_request_bytes);
  path.request = std::move(request);
  return path;
}

transport::Path Nic::carried_path(transport::Window memory, transport::Window destination,
                                  transport::Lid remote) const {
  transport::Path path = pull_path(memory);
  path.fixed += timing_.transmit;
  for (const transport::Hop& hop : transport::walk(*this, network(), transport::window_base(destination), remote))
    path.lanes[0].hops.push_back(hop);
  return path;
}

transport::Path Nic::path_from_host(transport::Window memory, transport::Window destination,
                                    transport::Lid remote) const {
  transport::Path path = this->path(memory, destination, remote);
  path.inline_bytes = timing_.inline_bytes;
  path.inline_fixed = timing_.doorbell + timing_.transmit;
  path.hops_to_inline = pull_path(memory).lanes[0].hops.size();
  return path;
}

}  // namespace railyard::infiniband
