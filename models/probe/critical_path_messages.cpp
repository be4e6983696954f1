// Messages on critical paths, and the inside of collectives.
#include "probe/critical_path.h"

#include <algorithm>

namespace railyard::probe {

namespace {

using transport::Cost;
using transport::CostKind;

void merge(std::vector<Cost>& costs, const Cost& more) {
  const auto same =
      std::find_if(costs.begin(), costs.end(), [&](const Cost& cost) { return cost.key() == more.key(); });
  if (same == costs.end()) {
    costs.push_back(more);
  } else {
    same->time += more.time;
    same->hidden += more.hidden;
    same->hidden_elsewhere += more.hidden_elsewhere;
  }
}

}  // namespace

CriticalPath::Moment CriticalPath::done_messages(const execution::Job& job, const Moment& begun) {
  if (job.start() != Time()) landed_.push_back({CostKind::engine, job.traffic_class(), nullptr, job.start(), {}, {}});
  std::vector<Time> sent = begun.if_free;
  for (std::size_t f = 0; f < sent.size(); ++f)
    if (f != static_cast<std::size_t>(CostKind::engine) && f != frees_.of_class(job.traffic_class()))
      sent[f] += job.start();
  Moment done = after(begun, std::move(landed_), job.name());
  const auto messages = arrived_.find(landed_of_);
  if (messages == arrived_.end()) return done;
  for (const transport::FreeLinks::Carried& message : messages->second) {
    const std::vector<Time> arrived = free_links_.carry(message, sent);
    for (std::size_t f = 0; f < arrived.size(); ++f)
      done.if_free[f] = later(done.if_free[f], sooner(arrived[f], now()));
  }
  arrived_.erase(messages);
  return done;
}

void CriticalPath::happens(Inside& inside, CauseRef cause) {
  inside_ = &inside;
  inside.last = std::move(cause);
}

void CriticalPath::on_entered(const collective::Collective& collective, std::uint32_t member) {
  Inside& inside = collectives_[&collective];
  Moment& entered = inside.entered[member];
  entered = after(entered, {{CostKind::sm_wait, 0, nullptr, since(now(), entered.at), {}, {}}}, {});
  inside.load.begin(now());
  happens(inside, CauseRef(new Cause{CauseRef(), now(), now(), {}, {}, false, member}));
}

void CriticalPath::on_put_off(const collective::Collective& collective, std::uint32_t tag, std::uint64_t data,
                              Time copying) {
  put_off_[{&collective, tag, data}].push_back({collectives_[&collective].last, copying});
}

void CriticalPath::on_taken_up(const collective::Collective& collective, std::uint32_t tag, std::uint64_t data) {
  const auto found = put_off_.find({&collective, tag, data});
  const Waiting waiting = std::move(found->second.front());
  CauseRef cause = waiting.cause;
  found->second.pop_front();
  if (found->second.empty()) put_off_.erase(found);
  if (cause->to != now()) {
    const std::uint8_t traffic_class = collective.spec().traffic_class;
    const Time took = now() - cause->to, copying = sooner(waiting.copying, took);
    std::vector<Cost> costs;
    if (took != copying) costs.push_back({CostKind::step, traffic_class, nullptr, took - copying, {}, {}});
    if (copying != Time()) costs.push_back({CostKind::engine, traffic_class, nullptr, copying, {}, {}});
    cause = CauseRef(new Cause{cause, cause->to, now(), std::move(costs), {}, false, cause->member});
  }
  happens(collectives_[&collective], cause);
}

void CriticalPath::on_send(const transport::Message& message, Time) {
  if (left_out_ == message.traffic_class) return;
  message_costs_.sent(message);
  if (inside_ != nullptr) messages_[&message] = {inside_->last, inside_};
}

void CriticalPath::on_left(const transport::Message& message) {
  if (left_out_ == message.traffic_class) return;
  const Sent& sent = messages_.at(&message);
  happens(*sent.inside,
          CauseRef(new Cause{
              sent.cause, sent.cause->to, now(), message_costs_.left(message, now()), {}, false, sent.cause->member}));
}

void CriticalPath::on_delivered(const transport::Message& message, Time) {
  if (left_out_ == message.traffic_class) return;
  landed_ = message_costs_.landed(message, now());
  const auto found = messages_.find(&message);
  if (found == messages_.end()) {
    landed_of_ = message.client;
    arrived_[landed_of_].push_back(
        {&message_costs_.path_costs(message), message.bytes, message.traffic_class, message.uncontended});
    return;
  }
  const Sent sent = std::move(found->second);
  messages_.erase(found);
  message_costs_.add(sent.inside->load, message);
  happens(*sent.inside, CauseRef(new Cause{sent.cause, sent.cause->to, now(), landed_, {}, false, sent.cause->member}));
}

collective::Trail CriticalPath::trail_of(const collective::Collective& collective) {
  const Inside& inside = collectives_[&collective];
  const CauseRef& last = inside.last;
  collective::Trail trail;
  trail.from_member = last->member;
  for (const Cause* cause = last.get(); cause != nullptr; cause = cause->before.get())
    for (const Cost& cost : cause->costs) merge(trail.costs, cost);
  trail.floors = floors_of(inside.load);
  return trail;
}

std::vector<Time> CriticalPath::floors_of(const transport::MessageCosts::Load& load) {
  const transport::MessageCosts::Floors least = message_costs_.floors(load);
  std::vector<Time> floors(frees_.count());
  const auto at = [&](CostKind kind) -> Time& { return floors[static_cast<std::size_t>(kind)]; };
  const Time most = later(least.links, least.engines), flight = least.lead + least.latency;
  at(CostKind::step) = most + least.latency;
  at(CostKind::latency) = most + least.lead;
  at(CostKind::queue) = most + flight;
  at(CostKind::engine) = least.links + least.latency;
  at(CostKind::wire) = later(least.beside_slowest, least.engines) + flight;
  for (std::size_t group = 0; group < frees_.groups; ++group)
    floors[frees_.of_group(group)] = later(least.beside_group[group], least.engines) + flight;
  return floors;
}

CriticalPath::Moment CriticalPath::done_collective(const execution::Job& job) {
  const collective::Collective& collective = *job.collective();
  const collective::Trail& trail = *ended_;
  const auto inside = collectives_.find(&collective);
  Moment begun = inside->second.entered[trail.from_member];
  // With something free, a member that entered earlier could be the last one. So its times count too.
  for (const Moment& other : inside->second.entered)
    if (!other.if_free.empty() && other.at <= begun.at) join(begun, other);
  if (++inside->second.done == collective.size()) collectives_.erase(inside);
  return after(begun, trail.costs, job.name(), trail.floors, true);
}

}  // namespace railyard::probe
