// Requests and schedulers on critical paths.
#include <algorithm>
#include <utility>

#include "probe/critical_path.h"

namespace railyard::probe {

using transport::CostKind;

CriticalPath::Offsets CriticalPath::ahead_of(std::uint32_t request, const Moment& moment) const {
  if (const auto found = requests_.find(request); found != requests_.end())
    if (const auto ahead = found->second.ahead.find(moment.clock); ahead != found->second.ahead.end())
      return ahead->second;
  return Offsets(frees_.count());
}

void CriticalPath::place(const void* owner, const Composed& before, const std::vector<Time>& composed) {
  for (auto gate = gates_.lower_bound({owner, 0}); gate != gates_.end() && gate->first.first == owner; ++gate) {
    std::vector<Time>& queued = gate->second.queued;
    if (!queued.empty()) continue;
    queued = composed;
    const Time at = gate->second.met.at;
    if (at >= now()) continue;
    for (std::size_t f = 0; f < queued.size(); ++f)
      queued[f] = queued[f] - share(since(composed[f], before.if_free[f]), (now() - at).fs(), (now() - before.at).fs());
  }
}

const CriticalPath::Moment* CriticalPath::first_of(const void* owner, const std::vector<std::uint32_t>& taken) const {
  const Moment* first = nullptr;
  for (const std::uint32_t number : taken)
    if (const auto gate = gates_.find({owner, number}); gate != gates_.end())
      if (first == nullptr || gate->second.met.at < first->at) first = &gate->second.met;
  return first;
}

void CriticalPath::on_composed(const void* owner, std::uint32_t ready, const std::vector<std::uint32_t>& taken,
                               const std::vector<std::uint32_t>& reserved, bool has_others) {
  std::vector<std::uint32_t> leaving = taken;  // the queue
  leaving.insert(leaving.end(), reserved.begin(), reserved.end());
  Composed& before = composed_[owner];
  const std::optional<Gate> progress = take_gate(owner, ready);
  if (progress) wait_for(progress->met);
  std::vector<Time> composed = before.if_free;
  composed.resize(frees_.count());
  before.if_free.resize(frees_.count());
  before.pace.resize(frees_.count(), 1);
  const Moment* first = first_of(owner, leaving);
  const Time ready_at = progress ? progress->met.at : before.at;
  if (first != nullptr && first->at < ready_at) first = nullptr;  // it has waited for the scheduler
  // Others run in other batches, and this one is composed because a request has come.
  const bool continues = has_others && first != nullptr && first->at > ready_at;
  for (std::size_t f = 0; f < composed.size(); ++f) {
    if (progress && !continues) composed[f] = later(composed[f], progress->met.if_free[f]);
    if (first != nullptr && !has_others)
      composed[f] = later(composed[f], first->if_free[f]);
    else if (!progress || continues)
      composed[f] = composed[f] + Time::seconds((now() - before.at).seconds() * before.pace[f]);
  }
  before.moved.resize(frees_.count());
  place(owner, before, composed);
  // With an asynchronous host, the time until now is that of the batch before the latest one.
  if (before.starts || before.started)
    for (std::size_t f = 0; f < composed.size(); ++f) starting_[f] += since(composed[f], before.if_free[f]);
  for (const std::uint32_t number : leaving) {
    const std::optional<Gate> gate = take_gate(owner, number);
    if (!gate) continue;
    Request& request = requests_[number];
    Offsets ahead = ahead_of(number, gate->met);
    for (std::size_t f = 0; f < composed.size(); ++f) {
      ahead[f] += gate->queued[f].fs() - gate->met.if_free[f].fs();
      const Time own = gate->met.if_free[f], place = gate->queued[f];
      const Time moved = later(own, place) - sooner(own, place);
      moved_[f] += since(moved, before.moved[f]);
      before.moved[f] = moved;
    }
    request.ahead[owner] = std::move(ahead);
    request.own = request.own ? spliced(gate->met.cause, request.queued, request.own) : gate->met.cause;
    request.queued = gate->met.at;
    wait_for(gate->met);
  }
  current();
  current_.if_free = composed;
  current_.clock = owner;
  if (now() > before.at)
    for (std::size_t f = 0; f < composed.size(); ++f)
      before.pace[f] = std::min(1.0, since(composed[f], before.if_free[f]).seconds() / (now() - before.at).seconds());
  before.started = std::exchange(before.starts, !taken.empty());
  before.at = now();
  before.if_free = std::move(composed);
}

void CriticalPath::on_arrived(std::optional<std::uint32_t> after) {
  current_ = {};
  if (!after) return;
  const auto answer = answered_.find(*after);
  if (answer == answered_.end()) return;
  wait_for(answer->second.first);
  if (--answer->second.second == 0) answered_.erase(answer);
}

void CriticalPath::on_answered(std::uint32_t number, std::uint32_t awaiting) {
  Moment answer = current();
  const Offsets ahead = ahead_of(number, answer);
  for (std::size_t f = 0; f < ahead.size(); ++f) answer.if_free[f] = Time::fs(answer.if_free[f].fs() - ahead[f]);
  answer.clock = nullptr;
  requests_.erase(number);
  join(last_answer_, answer);
  if (awaiting > 0) answered_[number] = {std::move(answer), awaiting};
}

}  // namespace railyard::probe
