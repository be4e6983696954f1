#include "transport/device/device.h"

#include <algorithm>
#include <numeric>

namespace railyard::transport {

namespace {

#if SC_VERSION_MAJOR < 3
/// Makes modules constructed in this scope children of `module`, at any place in the caller's hierarchy. SystemC 3 has
/// sc_module::get_hierarchy_scope() for this.
class ChildScope {
 public:
  explicit ChildScope(sc_core::sc_module& module) : context_(module.simcontext()) { context_->hierarchy_push(&module); }
  ~ChildScope() { context_->hierarchy_pop(); }
  ChildScope(const ChildScope&) = delete;
  ChildScope& operator=(const ChildScope&) = delete;

 private:
  sc_core::sc_simcontext* context_;
};
#endif

const WireCost& cost_of(const EgressPort& egress, const Transaction& t) {
  return egress.kind().cost(t.kind, t.payload_bytes, t.engine_payload_bytes, t.first_of_message);
}

}  // namespace

Device::Device(sc_core::sc_module_name name, FabricContext& context) : sc_module(name), context_(context) {}

Device::Port::Port(Device& device, PortId number, const std::string& port_name, const LinkDirection& direction)
    : owner(device),
      id(number),
      egress(device.context_.kinds.of(direction, device.context_.plan)),
      name(port_name),
      transmit((port_name + "_tx").c_str()),
      receive((port_name + "_rx").c_str()) {
  transmit.bind(static_cast<tlm::tlm_bw_transport_if<FabricProtocol>&>(*this));
  receive.bind(static_cast<tlm::tlm_fw_transport_if<FabricProtocol>&>(*this));
}

void Device::Port::b_transport(Transaction&, sc_core::sc_time&) {
  SC_REPORT_FATAL(owner.name(), "the fabric's protocol is non-blocking");
}

PortId Device::add_port(const std::string& name, const LinkDirection& transmit) {
#if SC_VERSION_MAJOR < 3
  const ChildScope scope(*this);
#else
  const auto scope = get_hierarchy_scope();  // protected: only the module itself may ask
#endif
  const PortId id(static_cast<std::uint32_t>(ports_.size()));
  ports_.push_back(std::make_unique<Port>(*this, id, name, transmit));
  return id;
}

void Device::end_of_elaboration() {
  for (const auto& port : ports_) {
    port->forward = port->transmit.operator->();
    port->backward = port->receive.operator->();
  }
}

void Device::connect(Device& a, PortId port_a, Device& b, PortId port_b) {
  a.port(port_a).transmit.bind(b.port(port_b).receive);
  b.port(port_b).transmit.bind(a.port(port_a).receive);
  introduce(a, port_a, b, port_b);
}

void Device::introduce(Device& a, PortId port_a, Device& b, PortId port_b) {
  Port& pa = a.port(port_a);
  Port& pb = b.port(port_b);
  pa.receive_rate = pb.egress.link().rate;
  pb.receive_rate = pa.egress.link().rate;
  pa.peer = &b;
  pa.peer_port = port_b;
  pb.peer = &a;
  pb.peer_port = port_a;
}

void Device::set_rate(PortId id, Rate rate) {
  Port& p = *ports_[id.value()];
  LinkDirection link = p.egress.link();
  link.rate = rate;
  p.egress.become(context_.kinds.of(link, context_.plan));
  p.peer->port(p.peer_port).receive_rate = rate;
}

tlm::tlm_sync_enum Device::Port::nb_transport_fw(Transaction& transaction, [[maybe_unused]] Phase& phase,
                                                 sc_core::sc_time&) {
  sc_assert(phase == Phase::head);
  transaction.ingress = id;
  if (owner.context_.losses != nullptr) {
    owner.context_.calendar.at(transaction.head, owner, kArrivalTag, reinterpret_cast<std::uint64_t>(&transaction));
    return tlm::TLM_ACCEPTED;
  }
  if (transaction.reverse_debt != 0) egress.owe(transaction.reverse_debt);
  owner.receive(transaction);
  return tlm::TLM_ACCEPTED;
}

void Device::head_arrived(Transaction& t) {
  Port& p = *ports_[t.ingress.value()];
  Port& sender = p.peer->port(p.peer_port);
  if (sender.egress.failed()) {
    sender.counters.lost_bytes += t.carried_bytes();
    return_credit(t, now());
    lose(t);
    return;
  }
  if (t.reverse_debt != 0) p.egress.owe(t.reverse_debt);
  receive(t);
}

void Device::lose(Transaction& t) {
  Message& message = *t.message;
  const bool of_switch = t.fork != nullptr;
  const bool read = t.kind == TransactionKind::read_request || t.kind == TransactionKind::read_response;
  if (read || of_switch) context_.losses->on_read_lost(t);
  if (!of_switch)
    context_.losses->on_lost(message, t.kind == TransactionKind::write ? t.address : message.address, t.payload_bytes);
  context_.pool.release(&t);
}

tlm::tlm_sync_enum Device::Port::nb_transport_bw(Transaction& transaction, [[maybe_unused]] Phase& phase,
                                                 sc_core::sc_time& delay) {
  sc_assert(phase == Phase::credit);
  const std::uint8_t vc = transaction.virtual_channel;
  const Time now = owner.now();
  held_up_by = peer->credit_waited_for_;
  const Time usable = egress.credit(vc, transaction.credit_bytes, transaction.packets, now + Time::fs(delay.value()));
  if (owner.context_.listener != nullptr)
    owner.context_.listener->on_credit(owner, id, vc, transaction.credit_bytes, now, usable);
  if (egress.starved(vc)) owner.wake(*this, usable);
  return tlm::TLM_ACCEPTED;
}

void Device::return_credit(Transaction& transaction, Time leaves) {
  Phase phase = Phase::credit;
  sc_core::sc_time delay = sc_core::sc_time::from_value((leaves - now()).fs());
  ports_[transaction.ingress.value()]->backward->nb_transport_bw(transaction, phase, delay);
}

void Device::request(PortId out, std::uint8_t vc, std::uint32_t requester) {
  Port& p = *ports_[out.value()];
  if (p.egress.add(vc, requester, now())) p.held_up_by = nullptr;
  serve(out);
}

std::vector<const Transaction*> Device::waiting(PortId out) {
  std::vector<const Transaction*> fronts;
  for (std::uint8_t vc = 0; vc < kVirtualChannels; ++vc)
    for (const std::uint32_t requester : port(out).egress.requesters(vc)) fronts.push_back(&front(out, vc, requester));
  return fronts;
}

void Device::queued(PortId out, std::int64_t more_bytes) {
  Port& p = *ports_[out.value()];
  p.counters.queued_bytes += static_cast<Bytes>(more_bytes);
  if (context_.listener != nullptr) context_.listener->on_queue(*this, out, p.counters.queued_bytes, now());
}

void Device::serve(PortId out) {
  Port& p = *ports_[out.value()];
  while (p.egress.waiting()) {
    const EgressPort::Choice choice =
        p.egress.choose(now(), [&](std::uint8_t vc, std::uint32_t requester) -> const WireCost& {
          return cost_of(p.egress, front(out, vc, requester));
        });
    if (!choice.found) {
      p.counters.peak_queued_bytes = std::max(p.counters.peak_queued_bytes, p.counters.queued_bytes);
      if (choice.retry != Time::max()) wake(p, choice.retry);
      return;
    }
    p.egress.remove(choice, now());
    start(p, take(out, choice.vc, choice.requester), choice.vc);
  }
}

void Device::start(Port& p, Transaction& t, std::uint8_t vc) {
  const WireCost cost = cost_of(p.egress, t);
  const Time free_before = p.egress.free();
  const Crossing crossing = p.egress.start(vc, now(), cost, t.tail);

  PortCounters& counters = p.counters;
  ++counters.transactions;
  counters.payload_bytes += t.carried_bytes();
  counters.wire_bytes += cost.bytes;
  counters.charge(p.egress.free(), p.egress.free() - later(free_before, now()));
  counters.queued_bytes -= t.carried_bytes();
  blame(p, t, free_before, crossing.owed);
  if (counters.users != nullptr)
    counters.users->add(t.message, t.traffic_class, p.egress.free(), p.egress.free() - later(free_before, now()));
  if (context_.listener != nullptr) {
    context_.listener->on_queue(*this, p.id, counters.queued_bytes, now());
    context_.listener->on_start(*this, p.id, t, now(), crossing);
  }

  departed(t, p.id, crossing.leaves);  // t still holds resources of its incoming link: its credit
  credit_waited_for_ = nullptr;
  t.wire_bytes = cost.bytes;
  t.credit_bytes = cost.credit_bytes;
  t.packets = static_cast<std::uint32_t>(cost.packets);
  t.reverse_debt = cost.reverse_debt;
  t.head = crossing.head;
  t.tail = crossing.tail;
  t.first_packet = crossing.first_packet;
  Phase phase = Phase::head;
  sc_core::sc_time delay = sc_core::sc_time::from_value((crossing.head - now()).fs());
  p.forward->nb_transport_fw(t, phase, delay);
}

void Device::blame(Port& p, Transaction& t, Time line_free, Time owed) {
  const Time stalled = since(now(), later(line_free, t.waiting_since));
  p.stalled += stalled;
  PortCounters& waited_for = p.held_up_by != nullptr ? *p.held_up_by : p.counters;
  const Time waited = since(now(), t.waiting_since);
  credit_waited_for_ = stalled != Time() ? &waited_for : waited != Time() ? &p.counters : nullptr;
  if (t.message != nullptr && waited + owed != Time()) {
    const Bytes whole = std::max<Bytes>(1, t.message->bytes);
    const Time for_credit = sooner(waited, since(p.stalled, t.stalled_before));
    const Time credit_share = share(for_credit, t.held_up_bytes, whole);
    if (for_credit != Time()) t.message->waited_at(waited_for, credit_share);
    // Acks in front of a train delay it like other trains.
    const Time for_line = waited - for_credit + owed;
    const Time line_share = share(for_line, t.held_up_bytes, whole);
    if (for_line != Time()) t.message->waited_at(p.counters, line_share);
    if (t.message->tell_waits) {
      tell_waits(t, waited_for, credit_share);
      tell_waits(t, p.counters, line_share);
    }
  }
  t.held_up_bytes = t.payload_bytes;  // from here on, a wait delays only this transaction
}

void Device::tell_waits(const Transaction& t, const PortCounters& port, Time time) const {
  if (time == Time() || port.users == nullptr) return;
  const LineUsers::Times times = port.users->between(t.waiting_since, now(), t.message);
  const Time all = std::accumulate(times.begin(), times.end(), Time());
  for (std::size_t c = 0; c < times.size(); ++c)
    if (times[c] != Time())
      t.message->client->on_waited(*t.message, port, static_cast<std::uint8_t>(c),
                                   share(time, times[c].fs(), all.fs()));
}

void Device::wake(Port& p, Time when) {
  if (when >= p.wake) return;
  p.wake = when;
  context_.calendar.at(when, *this, kWakeTag, p.id.value());
}

void Device::on_event(std::uint32_t tag, std::uint64_t data) {
  if (tag == kArrivalTag) {
    head_arrived(*reinterpret_cast<Transaction*>(data));
    return;
  }
  if (tag != kWakeTag) {
    on_own_event(tag, data);
    return;
  }
  Port& p = *ports_[data];
  if (p.wake != now()) return;  // replaced by an earlier wake-up
  p.wake = Time::max();
  serve(p.id);
}

}  // namespace railyard::transport
