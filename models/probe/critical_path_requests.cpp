// Requests and schedulers on critical paths.
#include <algorithm>
#include <utility>

#include "probe/critical_path.h"

namespace railyard::probe {

using transport::CostKind;

namespace {

/// Steps of a scheduler that a request may take to get its KV, and whose times are known then.
constexpr std::size_t kKeptCompositions = 256;

}  // namespace

Time CriticalPath::Composed::next_after(Time came, Time composed, std::size_t f) const {
  if (came > composed) {  // steps go on as the latest one
    const Time step = since(composed, if_free[f]);
    return step == Time() ? came : composed + step * ceil_div((came - composed).fs(), step.fs());
  }
  if (if_free[f] < came) return composed;
  Time next = if_free[f];
  for (auto before = earlier.rbegin(); before != earlier.rend() && (*before)[f] >= came; ++before) next = (*before)[f];
  return next;
}

CriticalPath::Offsets CriticalPath::ahead_of(std::uint32_t request, const Moment& moment) const {
  if (const auto found = requests_.find(request); found != requests_.end())
    if (const auto ahead = found->second.ahead.find(moment.clock); ahead != found->second.ahead.end())
      return ahead->second;
  return Offsets(frees_.count());
}

std::vector<Time> CriticalPath::own_times(std::uint32_t request, const Moment& moment) const {
  const Offsets ahead = ahead_of(request, moment);
  std::vector<Time> own(ahead.size());
  for (std::size_t f = 0; f < own.size(); ++f) own[f] = Time::fs(moment.if_free[f].fs() - ahead[f]);
  return own;
}

void CriticalPath::enter(Request& request, const void* scheduler, const Shifts& then) {
  if (!request.stays.empty()) {
    Request::Stay& latest = request.stays.back();
    if (latest.scheduler == scheduler) return;
    latest.until = composed_.at(latest.scheduler).shifts;
  }
  request.stays.push_back({scheduler, then, {}});
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

std::optional<CriticalPath::Moment> CriticalPath::first_of(const void* owner,
                                                           const std::vector<std::uint32_t>& taken) const {
  std::optional<Moment> first;
  for (const std::uint32_t number : taken) {
    const auto gate = gates_.find({owner, number});
    if (gate == gates_.end() || (first && gate->second.met.at >= first->at)) continue;
    first = gate->second.met;
    first->if_free = own_times(number, *first);
  }
  return first;
}

void CriticalPath::on_held(const char* metric, std::uint32_t number, Time since) {
  if (const auto found = begun_.find({metric, number}); found != begun_.end()) found->second.held += now() - since;
  held_ += now() - since;
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
  std::optional<Moment> first = first_of(owner, leaving);
  const Time ready_at = progress ? progress->met.at : before.at;
  if (first && first->at < ready_at) first.reset();  // it has waited for the scheduler
  // Others run in other batches, and this one is composed because a request has come.
  const bool continues = has_others && first && first->at > ready_at;
  for (std::size_t f = 0; f < composed.size(); ++f) {
    if (progress && !continues) composed[f] = later(composed[f], progress->met.if_free[f]);
    if (first && !has_others)
      composed[f] = later(composed[f], first->if_free[f]);
    else if (!progress || continues)
      composed[f] = composed[f] + Time::seconds((now() - before.at).seconds() * before.pace[f]);
  }
  before.moved.resize(frees_.count());
  before.moved_reserved.resize(frees_.count());
  before.shifts.moved.resize(frees_.count());
  before.shifts.starting.resize(frees_.count());
  place(owner, before, composed);
  // With an asynchronous host, the time until now is that of the batch before the latest one.
  if (before.starts || before.started)
    for (std::size_t f = 0; f < composed.size(); ++f)
      before.shifts.starting[f] += since(composed[f], before.if_free[f]);
  for (std::size_t i = 0; i < leaving.size(); ++i) {
    const std::uint32_t number = leaving[i];
    const std::optional<Gate> gate = take_gate(owner, number);
    if (!gate) continue;
    Request& request = requests_[number];
    enter(request, owner, gate->then);
    std::vector<Time>& moved_before = i < taken.size() ? before.moved : before.moved_reserved;
    Offsets ahead = ahead_of(number, gate->met);
    const std::vector<Time> own = own_times(number, gate->met);
    // What it waited for began at a step of this scheduler, such as its KV or a place in the router, and it waits for the next step.
    const bool is_between = gate->met.clock == owner && gate->met.at < now();
    for (std::size_t f = 0; f < composed.size(); ++f) {
      if (is_between) {
        const Time came = gate->met.if_free[f], joined = before.next_after(came, composed[f], f);
        ahead[f] += composed[f].fs() - joined.fs();
        continue;
      }
      ahead[f] += gate->queued[f].fs() - gate->met.if_free[f].fs();
      const Time place = gate->queued[f];
      const Time moved = later(own[f], place) - sooner(own[f], place);
      before.shifts.moved[f] += since(moved, moved_before[f]);
      moved_before[f] = moved;
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
  if (!before.if_free.empty()) before.earlier.push_back(std::move(before.if_free));
  if (before.earlier.size() > kKeptCompositions) before.earlier.pop_front();
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
  if (const auto request = requests_.find(number); request != requests_.end()) {
    last_stays_ = std::move(request->second.stays);
    requests_.erase(request);
  }
  join(last_answer_, answer);
  if (awaiting > 0) answered_[number] = {std::move(answer), awaiting};
}

}  // namespace railyard::probe
