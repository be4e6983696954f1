#include "transport/device/group_switch.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "transport/device/endpoint.h"

namespace railyard::transport {

void GroupSwitch::set_reduction(PortId port, const ReductionUnit& spec) {
  Unit& u = unit(port);
  u.spec = spec;
  if (spec.rate != Rate()) u.reducer = ByteClock(spec.rate);
}

GroupSwitch::Unit& GroupSwitch::unit(PortId port) {
  if (port.value() >= units_.size()) units_.resize(port.value() + 1);
  std::unique_ptr<Unit>& u = units_[port.value()];
  if (u == nullptr) u = std::make_unique<Unit>();
  return *u;
}

PortId GroupSwitch::port_of(Window member) const {
  const PortId port = decode(window_base(member), 0, PortId());
  if (!port.valid()) SC_REPORT_FATAL(name(), "a member of a group is behind no port");
  return port;
}

std::vector<std::uint64_t> GroupSwitch::traits(PortId port) const {
  std::vector<std::uint64_t> traits = Switch::traits(port);
  const bool reduces = port.value() < units_.size() && units_[port.value()] != nullptr;
  const ReductionUnit spec = reduces ? units_[port.value()]->spec : ReductionUnit();
  traits.insert(traits.end(), {spec.slot_bytes, spec.rate.bytes_per_second()});
  return traits;
}

Rate GroupSwitch::reduction_limit(PortId port, Time round_trip) const {
  if (port.value() >= units_.size() || units_[port.value()] == nullptr) return Rate();
  const ReductionUnit& spec = units_[port.value()]->spec;
  const Rate line = ports_[port.value()]->egress.link().rate;
  Rate limit;
  if (spec.rate != Rate() && spec.rate < line) limit = spec.rate;
  if (spec.slot_bytes != 0 && line.time_for(spec.slot_bytes) < round_trip) {
    const auto by_slots = static_cast<std::uint64_t>(static_cast<double>(spec.slot_bytes) / round_trip.seconds());
    if (limit == Rate() || by_slots < limit.bytes_per_second()) limit = Rate::bytes_per_second(by_slots);
  }
  return limit;
}

Time GroupSwitch::round_trip(GroupId group) const {
  Time longest;
  for (const Window member : context_.groups[group]) {
    const Port& down = *ports_[port_of(member).value()];
    const auto* memory = dynamic_cast<const Endpoint*>(down.peer);
    if (memory == nullptr) SC_REPORT_FATAL(name(), "a member of a group is not at a port of its own");
    const Time back = memory->port(down.peer_port).egress.link().latency;
    longest = later(longest, down.egress.link().latency + memory->read_latency() + back);
  }
  return longest;
}

Fork& GroupSwitch::fork_of(Transaction& t) {
  Fork* fork = free_forks_;
  if (fork != nullptr) {
    free_forks_ = fork->next;
    *fork = Fork();
  } else {
    fork = &forks_.emplace_back();
  }
  fork->origin = &t;
  fork->copies = fork->operands = static_cast<std::uint32_t>(members(t).size());
  return *fork;
}

void GroupSwitch::release(Fork& fork) {
  fork.next = free_forks_;
  free_forks_ = &fork;
}

void GroupSwitch::receive(Transaction& t) {
  switch (t.kind) {
    case TransactionKind::multicast: copy(t, false); break;
    case TransactionKind::reduce_request:
      context_.calendar.at(t.head, *this, kRequestTag, reinterpret_cast<std::uint64_t>(&t));
      break;
    case TransactionKind::reduce_response: {
      const PortId out = decode(t.fork->origin->reply_to, 0, t.ingress);
      context_.calendar.at(ready(t, out), *this, kOperandTag, reinterpret_cast<std::uint64_t>(&t));
      break;
    }
    default: Switch::receive(t);
  }
}

void GroupSwitch::copy(Transaction& t, bool at_once) {
  Fork& fork = fork_of(t);
  for (const Window member : members(t)) {
    Transaction& c = *context_.pool.acquire();
    c = t;
    c.fork = &fork;
    c.address = window_base(member) + t.address;
    c.egress = port_of(member);
    const Time when = at_once ? later(now(), ready(c, c.egress)) : ready(c, c.egress);
    context_.calendar.at(when, *this, kArriveTag, reinterpret_cast<std::uint64_t>(&c));
  }
}

void GroupSwitch::left(Transaction& t, PortId out, Time leaves) {
  if (t.fork == nullptr && t.kind == TransactionKind::reduce_response) {
    Unit& u = unit(out);
    u.slots.give_back(leaves, t.payload_bytes);
    if (!u.waiting.empty()) reserve(out);
    return;
  }
  if (t.fork == nullptr) {
    Switch::left(t, out, leaves);
    return;
  }
  Fork& fork = *t.fork;
  fork.left = later(fork.left, leaves);
  if (--fork.copies != 0) return;
  Transaction& origin = *fork.origin;
  return_credit(origin, fork.left);
  if (origin.kind != TransactionKind::multicast) return;  // a reduction continues
  t.fork = nullptr;
  context_.pool.release(&origin);
  release(fork);
}

void GroupSwitch::on_own_event(std::uint32_t tag, std::uint64_t data) {
  switch (tag) {
    case kRequestTag: {
      Transaction& t = *reinterpret_cast<Transaction*>(data);
      t.waiting_since = now();
      Unit& u = unit(t.ingress);
      u.waiting.push(&t);
      if (u.waiting.front() == &t) reserve(t.ingress);
      break;
    }
    case kReserveTag: {
      const PortId port(static_cast<std::uint32_t>(data));
      if (unit(port).retry != now()) break;  // replaced by an earlier wake-up
      unit(port).retry = Time::max();
      reserve(port);
      break;
    }
    case kOperandTag: operand(*reinterpret_cast<Transaction*>(data)); break;
    case kResultTag: arrive(*reinterpret_cast<Transaction*>(data)); break;
    default: Switch::on_own_event(tag, data);
  }
}

void GroupSwitch::reserve(PortId port) {
  Unit& u = unit(port);
  while (!u.waiting.empty()) {
    Transaction& t = *u.waiting.front();
    Time when = later(now(), u.pace);
    if (u.spec.slot_bytes != 0) {
      u.largest = std::max(u.largest, t.payload_bytes);
      when = later(when, u.slots.below(u.spec.slot_bytes + u.largest, now()));
    }
    if (when > now()) {
      if (when < u.retry) {
        u.retry = when;
        context_.calendar.at(when, *this, kReserveTag, port.value());
      }
      return;
    }
    u.waiting.pop();
    u.slots.settle(now());
    u.slots.take(t.payload_bytes);
    if (u.spec.slot_bytes != 0 && u.group != t.group) {
      u.group = t.group;
      const Time loop = round_trip(t.group);
      u.paced = ports_[port.value()]->egress.link().rate.time_for(u.spec.slot_bytes) < loop;
      if (u.paced) u.window = ByteClock(loop.fs(), u.spec.slot_bytes);
    }
    if (u.paced) {
      if (now() > u.pace) u.window.reset();
      u.pace = now() + u.window.advance(t.payload_bytes);
    }
    if (now() > t.waiting_since)
      t.message->waited_at(ports_[port.value()]->counters,
                           share(now() - t.waiting_since, t.payload_bytes, t.message->bytes));
    copy(t, true);
  }
}

void GroupSwitch::operand(Transaction& t) {
  Fork& fork = *t.fork;
  fork.tail = later(fork.tail, t.tail);
  return_credit(t, t.tail);
  context_.pool.release(&t);
  if (--fork.operands == 0) result(fork);
}

void GroupSwitch::result(Fork& fork) {
  Transaction& t = *fork.origin;
  Unit& u = unit(t.ingress);
  const Time start = later(now(), u.free);
  t.tail = fork.tail;
  if (u.spec.rate != Rate()) {
    if (now() > u.free) u.reducer.reset();
    u.free = start + u.reducer.advance(t.payload_bytes);
    t.tail = later(t.tail, u.free);
  }
  release(fork);
  t.kind = TransactionKind::reduce_response;
  t.virtual_channel = context_.plan.response_vc_of(t.traffic_class);
  t.address = t.reply_to;
  t.egress = t.ingress;
  t.head = start;
  context_.calendar.at(start, *this, kResultTag, reinterpret_cast<std::uint64_t>(&t));
}

namespace {

/// Compares first the slowest link, then the latency.
bool slower(const std::vector<Hop>& a, const std::vector<Hop>& b) {
  const auto rate = [](const std::vector<Hop>& hops) {
    Rate least = hops.front().link().rate;
    for (const Hop& hop : hops)
      if (hop.link().rate < least) least = hop.link().rate;
    return least;
  };
  const auto latency = [](const std::vector<Hop>& hops) {
    Time sum;
    for (const Hop& hop : hops) sum += hop.link().latency;
    return sum;
  };
  if (rate(a) != rate(b)) return rate(a) < rate(b);
  return latency(a) > latency(b);
}

/// The switch of a group for `source`; the group's members must be neighbours of the switch.
const GroupSwitch& switch_of(const Endpoint& source, PortId out) {
  const auto* found = dynamic_cast<const GroupSwitch*>(source.port(out).peer);
  if (found == nullptr)
    throw std::logic_error(std::string(source.name()) + ": no switch that copies and reduces at this port");
  return *found;
}

std::vector<Hop> walk_to_member(const Endpoint& source, PortId out, Window member, TransactionKind kind) {
  std::vector<Hop> hops = walk(source, out, window_base(member), 0, kind);
  if (hops.size() != 2 || arrival(hops, window_base(member)).endpoint == nullptr)
    throw std::logic_error(std::string(source.name()) + ": a member of a group is not at a port of the switch");
  return hops;
}

}  // namespace

void add_multicast_lane(Path& path, const Endpoint& source, PortId out, const std::vector<Window>& members,
                        std::uint32_t weight) {
  switch_of(source, out);
  Lane lane;
  lane.weight = weight;
  for (const Window member : members) {
    std::vector<Hop> hops = walk_to_member(source, out, member, TransactionKind::multicast);
    if (lane.hops.empty() || slower(hops, lane.hops)) lane.hops = std::move(hops);
  }
  path.lanes.push_back(std::move(lane));
}

void add_reduction_lane(Path& path, const Endpoint& source, PortId out, const std::vector<Window>& members,
                        std::uint32_t weight) {
  const GroupSwitch& sw = switch_of(source, out);
  Path slowest;
  for (const Window member : members) {
    const Arrival memory =
        arrival(walk_to_member(source, out, member, TransactionKind::reduce_request), window_base(member));
    Path read = read_path(source, out, *memory.endpoint, memory.port, memory.endpoint->read_latency());
    for (Hop& hop : read.lanes[0].hops) hop.kind = TransactionKind::reduce_response;
    if (slowest.lanes.empty() || slower(read.lanes[0].hops, slowest.lanes[0].hops) || read.fixed > slowest.fixed)
      slowest = std::move(read);
  }
  const std::vector<Hop>& hops = slowest.lanes[0].hops;
  const Time loop = slowest.fixed - source.port(out).egress.link().latency + hops[0].link().latency;
  const Rate limit = sw.reduction_limit(source.port(out).peer_port, loop);
  if (limit != Rate()) path.limit = Rate::bytes_per_second(path.limit.bytes_per_second() + limit.bytes_per_second());
  path.fixed = later(path.fixed, slowest.fixed);
  slowest.lanes[0].weight = weight;
  path.lanes.push_back(std::move(slowest.lanes[0]));
}

}  // namespace railyard::transport
