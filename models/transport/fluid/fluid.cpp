#include "transport/fluid/fluid.h"

#include <algorithm>

namespace railyard::transport {

void Fluid::add(Device& device, PortId id) {
  Device::Port& port = device.port(id);
  if (port.fluid != nullptr) return;
  Device::Port& back = port.peer->port(port.peer_port);
  FluidPort& there = ports_.emplace_back();
  FluidPort& here = ports_.emplace_back();
  there.port = &port;
  here.port = &back;
  there.reverse = &here;
  here.reverse = &there;
  port.fluid = &there;
  back.fluid = &here;
}

void Fluid::add(Meter& meter) {
  if (meter.fluid != nullptr) return;
  FluidPort& shared = ports_.emplace_back();
  shared.meter = &meter;
  meter.fluid = &shared;
  shared.reverse = &ports_.emplace_back();
}

FluidPath* Fluid::path_of(std::uint64_t pair, const Message& message) {
  const auto [found, fresh] = by_pair_.try_emplace(pair, nullptr);
  if (fresh) {
    const Path path = routes_.path_of(message);
    if (!path.lanes.empty()) {
      const Hop& first = path.lanes[0].hops[0];
      if (first.device->port(first.port).fluid != nullptr) {
        if (path.meter != nullptr) add(*path.meter);
        found->second = &paths_.emplace_back(context_, routes_, message, shapes_);
        if (!found->second->build(by_first_lane_)) links_changed();
        rates_.forget(found->second->crossings());  // the path may limit ports that others cross
      }
    }
  }
  return found->second;
}

FluidStream& Fluid::stream_of(const Message& m) {
  const FluidStreamKey key{m.path_key(), m.queue_pair};
  if (m.source >= by_source_.size()) by_source_.resize(m.source + 1);
  FluidStream*& latest = by_source_[m.source].latest;
  if (latest != nullptr && latest->key == key) return *latest;
  const auto [found, fresh] = by_key_.try_emplace(key, nullptr);
  if (fresh) {
    FluidStream& stream = streams_.emplace_back();
    stream.number = static_cast<std::uint32_t>(streams_.size() - 1);
    stream.key = key;
    stream.path = path_of(key.pair, m);
    if (stream.path != nullptr) stream.crossings = &stream.path->crossings();
    by_source_[m.source].all.push_back(&stream);
    found->second = &stream;
  }
  latest = found->second;
  return *latest;
}

std::vector<FluidStreamKey> Fluid::streams_since(const std::vector<Window>& sources, Time since) const {
  std::vector<const FluidStream*> found;
  for (const Window source : sources)
    if (source < by_source_.size())
      for (const FluidStream* stream : by_source_[source].all)
        if (stream->path != nullptr && stream->sent >= since) found.push_back(stream);
  std::sort(found.begin(), found.end(), [](const auto* a, const auto* b) { return a->number < b->number; });
  std::vector<FluidStreamKey> keys;
  for (const FluidStream* stream : found) keys.push_back(stream->key);
  return keys;
}

std::optional<std::uint32_t> Fluid::number_of(const FluidStreamKey& key) const {
  const auto found = by_key_.find(key);
  return found == by_key_.end() ? std::nullopt : std::make_optional(found->second->number);
}

bool Fluid::send(Message& message) {
  FluidStream& stream = stream_of(message);
  if (stream.path == nullptr) return false;
  stream.sent = now();
  message.transaction_bytes = stream.path->transaction_bytes();
  message.uncontended = stream.path->uncontended(message);
  if (context_.listener != nullptr) context_.listener->on_send(message, now());
  context_.ledger.begun(message);
  settle(stream);
  const bool idle = stream.front == nullptr;
  stream.push(message);
  if (idle) start(stream);
  return true;
}

void Fluid::start(FluidStream& stream) {
  bool meets = stream.path->meets_itself();
  for (const FluidCrossing& crossing : stream.path->crossings()) {
    meets |= meet(*crossing.port);
    if (crossing.owed != 0) meets |= meet(*crossing.port->reverse);
  }
  stream.meets = meets;
  stream.demand = 0;
  stream.carry = 0;
  stream.speed = meets ? 0 : 1;  // 0 until its rate is solved
  drain(stream, now());
  rates_.join(stream, !meets);
  if (meets) solve_soon();
  schedule(stream);
}

bool Fluid::meet(FluidPort& port) {
  for (std::size_t i = 0; i < port.members.size();) {
    auto& other = static_cast<FluidStream&>(*port.members[i].flow);
    if (!other.meets) {
      settle(other);
      if (!other.joined) continue;  // it has left already
      other.meets = true;
      schedule(other);
    }
    ++i;
  }
  return !port.members.empty();
}

void Fluid::drain(FluidStream& stream, Time from) {
  Message& message = *stream.front;
  const SizedMessage& sized = stream.path->sized(message.bytes);
  Time alone = sized.drain;
  double demand = stream.path->rate();
  if (message.source_rate != Rate() && message.source_rate.time_for(message.bytes) > alone) {
    alone = message.source_rate.time_for(message.bytes);
    demand = static_cast<double>(message.source_rate.bytes_per_second());
  }
  message.finished = stream.path->uncontended(message) - alone;  // time from leaving to arrival
  if (demand != stream.demand) {
    stream.carry = 0;
    stream.demand = demand;
    if (stream.joined) {
      rates_.take_demand(stream, !stream.meets);
      if (!rates_.settled()) solve_soon();
      stream.take_rate();
    }
  }
  if (alone == sized.drain) alone = stream.path->price().advance(sized.slowest_bytes, stream.carry);
  if (from > message.started) {
    PortCounters& first = stream.path->crossings()[0].port->counters();
    message.waited_at(first, from - message.started);
    if (message.tell_waits) message.client->on_waited(message, first, message.traffic_class, from - message.started);
  }
  stream.begin(from, alone);
}

void Fluid::settle(FluidStream& stream) {
  while (stream.front != nullptr && stream.front->left_at <= now()) {
    Message& message = *stream.front;
    const Time left = message.left_at;
    stream.book_wait(left);
    std::shared_ptr<Leaving> logged;
    if (stream.is_logged) {
      logged = std::make_shared<Leaving>(stream.leaving);
      logged->left = left;
    }
    const std::vector<SizedMessage::Charge>& charges = stream.path->sized(message.bytes).charges;
    for (std::size_t i = 0; i < charges.size(); ++i) {
      const SizedMessage::Charge& charge = charges[i];
      PortCounters& counters = stream.path->charged(charge).counters();
      ++counters.transactions;
      counters.payload_bytes += charge.payload_bytes;
      counters.wire_bytes += charge.wire_bytes;
      const Time all = sooner(charge.busy, left - stream.leaving.begun);  // a line may have been faster before
      counters.busy += stream.charged.empty() ? all : since(all, stream.charged[i]);
      if (counters.log != nullptr && logged != nullptr) counters.log->add(logged, all);
    }
    stream.charged.clear();
    message.landed = message.to_land;
    stream.front_left();
    if (stream.front != nullptr) {
      drain(stream, left);
    } else {
      rates_.leave(stream);
      if (!rates_.settled()) solve_soon();
    }
  }
}

void Fluid::charge_until_now() {
  for (FluidStream& stream : streams_) {
    settle(stream);
    const Leaving& leaving = stream.leaving;
    if (stream.front == nullptr || leaving.begun >= now()) continue;
    const std::vector<SizedMessage::Charge>& charges = stream.path->sized(stream.front->bytes).charges;
    stream.charged.resize(charges.size());
    const Time part = since(leaving.whole, leaving.pieces.back().rest(now()));
    for (std::size_t i = 0; i < charges.size(); ++i) {
      const Time all = Leaving::charged(charges[i].busy, now() - leaving.begun, part, leaving.whole);
      stream.path->charged(charges[i]).counters().busy += since(all, stream.charged[i]);
      stream.charged[i] = later(stream.charged[i], all);
    }
  }
}

void Fluid::schedule(FluidStream& stream) {
  Time when = Time::max();
  if (stream.landing != nullptr) when = stream.landing->finished;
  if (const Message* front = stream.front; front != nullptr && front->left_at != Time::max()) {
    const bool changes = front->next == nullptr || front->next->source_rate != front->source_rate;
    const bool watched = front->tell_left || (stream.meets && changes);
    when = sooner(when, watched ? front->left_at : later(stream.lands, front->left_at + front->finished));
  }
  if (when >= stream.wake) return;
  stream.wake = when;
  context_.calendar.at(when, *this, kWakeTag, stream.number);
}

void Fluid::on_event(std::uint32_t tag, std::uint64_t data) {
  if (tag == kSolveTag) {
    solving_ = false;
    solve();
    return;
  }
  FluidStream& stream = streams_[data];
  if (stream.wake != now()) return;  // replaced by an earlier wake-up
  stream.wake = Time::max();
  settle(stream);
  tell_left(stream);
  land(stream);
  schedule(stream);
}

void Fluid::tell_left(FluidStream& stream) {
  while (stream.untold != nullptr) {
    Message& message = *stream.untold;
    do stream.untold = stream.untold->next;
    while (stream.untold != nullptr && !stream.untold->tell_left);
    message.tell_left = false;
    message.client->on_left(message);
  }
}

void Fluid::land(FluidStream& stream) {
  while (stream.landing != nullptr && stream.landing->finished <= now()) {
    Message& message = *stream.landing;
    stream.landing = message.next;
    if (context_.listener != nullptr) context_.listener->on_delivered(message, now());
    context_.ledger.delivered(message);
  }
}

void Fluid::solve_soon() {
  if (solving_) return;
  solving_ = true;
  context_.calendar.at(now(), *this, kSolveTag, 0);
}

void Fluid::solve() {
  for (FluidFlow* flow : rates_.solve()) {
    auto& stream = static_cast<FluidStream&>(*flow);
    settle(stream);
    if (!stream.joined) continue;
    stream.change_speed(now());
    schedule(stream);
  }
}

void Fluid::build_paths() {
  for (const bool by_first_lane : {true, false}) {
    by_first_lane_ = by_first_lane;
    for (FluidPort& port : ports_) {
      port.limit = 0;
      port.stand_in = nullptr;
    }
    bool agree = true;
    for (FluidPath& path : paths_) agree &= path.build(by_first_lane);
    if (agree) return;
  }
}

void Fluid::links_changed() {
  std::vector<std::pair<FluidStream*, double>> under_way;  // and their earlier demands
  for (FluidStream& stream : streams_) {
    settle(stream);
    if (!stream.joined) continue;
    stream.change_speed(now());
    rates_.leave(stream);
    under_way.emplace_back(&stream, stream.demand);
  }
  build_paths();
  rates_.forget();
  for (const auto& [stream, demand] : under_way) {
    const Rate writes = stream->front->source_rate;
    stream->demand = stream->path->rate();
    if (writes != Rate()) stream->demand = std::min(stream->demand, static_cast<double>(writes.bytes_per_second()));
    stream->stop(now(), demand / stream->demand);
    stream->meets = true;
    rates_.join(*stream, false);
    solve_soon();
    schedule(*stream);
  }
}

}  // namespace railyard::transport
