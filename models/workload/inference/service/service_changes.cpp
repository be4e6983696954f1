// Instances that are drained, fail or join while requests are served, and clients that leave. A request that an instance
// has lost goes to the router again; its prompt then contains the tokens of the answer that are known.
#include <fmt/format.h>
#include <algorithm>
#include <utility>

#include "workload/inference/service/service.h"

namespace railyard::workload::inference {

void Service::prepare_changes(const std::vector<Placed>& placed) {
  presences_.assign(instances_.size(), Presence::here);
  if (spec_.changes.empty()) return;
  api_server_.keep_contents();
  std::vector<std::vector<transport::Window>> hosts;
  for (const Placed& each : placed) hosts.push_back(each.memories);
  WeightLoadsClient& client = *this;
  weights_.emplace(spec_.changes, instances_, hosts, executor_, client);
  for (std::size_t i = spec_.changes.size(); i > 0; --i) {
    const InstanceChange& change = spec_.changes[i - 1];
    const bool joins = change.what == InstanceChange::What::join;
    presences_[change.instance] = joins ? Presence::not_yet : Presence::here;  // by its first change
  }
  for (std::uint32_t id = 0; id < instances_.size(); ++id) router_.set_open(id, presences_[id] == Presence::here);
}

Time Service::next_change() const {
  if (weights_ && weights_->is_loading()) return now();
  return sooner(changed_ < spec_.changes.size() ? spec_.changes[changed_].at : Time::max(), api_server_.next_leave());
}

void Service::change(const InstanceChange& change) {
  ++changed_;
  const std::uint32_t id = change.instance;
  const bool has_weights = presences_[id] == Presence::here || presences_[id] == Presence::drained;
  switch (change.what) {
    case InstanceChange::What::drain:
      if (has_weights) presences_[id] = Presence::drained;
      router_.set_open(id, false);
      return;
    case InstanceChange::What::fail: fail(id); return;
    case InstanceChange::What::join:
      if (has_weights) {
        open(id);
      } else {
        presences_[id] = Presence::loading;
        weights_->start(change);
      }
  }
}

void Service::on_weights_loaded(std::uint32_t instance) {
  exchange_.begun_anew(*instances_[instance]);
  if (presences_[instance] == Presence::loading) open(instance);
}

void Service::open(std::uint32_t id) {
  presences_[id] = Presence::here;
  router_.set_open(id, true);
  for (const std::uint32_t request : std::exchange(held_answers_, {})) on_forwarded(request);
  route_held_soon();
}

void Service::fail(std::uint32_t id) {
  presences_[id] = Presence::failed;
  router_.set_open(id, false);
  router_.on_lost(id);
  for (const std::uint32_t request : api_server_.requests()) {
    Stay& stay = api_server_.on_way(request);
    if (stay.visits.empty()) continue;
    Visit &first = stay.visits.front(), &last = stay.visits.back();
    const bool is_one = stay.visits.size() == 1;
    if (first.instance == id && is_one && first.arrival && !first.done) {
      restart(request);
    } else if (first.instance == id && !is_one && !last.kv_landed) {
      if (first.done && !last.arrival) {
        stay.is_kv_lost = true;  // whoever asks for it learns that
        stay.lost_last = instances_[id]->cancel(request).tokens;
      } else if (first.arrival || last.arrival) {
        restart(request);
      }
    } else if (last.instance == id && !is_one) {
      if (last.arrival && !last.done) {
        restart(request);
      } else if (!last.arrival && !exchange_.pushes()) {
        router_.view().on_ended(request, id);
        last.instance = Visit::kNowhere;  // another one will be chosen
      }
    }
  }
  instances_[id]->forget();
}

void Service::cancel(std::uint32_t request) {
  Stay& stay = api_server_.on_way(request);
  Visit &first = stay.visits.front(), &last = stay.visits.back();
  const bool is_one = stay.visits.size() == 1;
  if (!is_one && last.arrival && !last.kv_promised) --waiting_[{first.instance, last.instance}];
  exchange_.cancel(request);
  contents_.erase(request);
  if (!stay.is_kv_lost) stay.lost_last = 0;
  const bool has_token = api_server_.has_token(request);
  keep_leased(stay, request);
  for (const Visit& visit : stay.visits) {
    if (visit.instance == Visit::kNowhere) continue;
    Instance& instance = at(visit);
    const Instance::Cancelled cancelled = instance.cancel(request);
    stay.lost_last = std::max(stay.lost_last, cancelled.tokens);
    if (!has_token) stay.ttft.add(cancelled.times, {});
    router_.view().on_ended(request, visit.instance);
    if (presences_[visit.instance] == Presence::failed) continue;
    instance.promise();
    instance.engine().changed();
  }
  stay.lost_tokens += stay.lost_last;
  stay.is_kv_lost = false;
  count(stay, kPrefill, false);
  count(stay, kDecode, false);
}

Time Service::end_of_lease(const Visit& prompt, bool is_asked) const {
  const Time lease = Time::seconds(spec_.connector.lease_s), end = *prompt.done + lease;
  return is_asked ? later(end, now() + Time::seconds(spec_.connector.lease_s * 2 / 3)) : end;
}

void Service::keep_leased(Stay& stay, std::uint32_t request) {
  const Visit &first = stay.visits.front(), &last = stay.visits.back();
  if (spec_.connector.lease_s == 0 || exchange_.pushes() || stay.is_kv_lost || stay.visits.size() < 2 || !first.done ||
      last.kv_landed || presences_[first.instance] == Presence::failed)
    return;
  // An instance that is there, and has asked for the KV, says that it will not read it.
  if (last.arrival && presences_[last.instance] != Presence::failed) return;
  const Time end = end_of_lease(first, last.arrival.has_value());
  if (end <= now()) return;
  stay.lost_last = std::max(stay.lost_last, at(first).keep(request, next_lease_));
  leases_[next_lease_] = {request, stay.restarts, first.instance, false};
  fabric_.calendar().at(end, *this, kLeaseTag, next_lease_++);
}

void Service::end_lease(std::uint64_t number) {
  const Lease lease = leases_.extract(number).mapped();
  if (!lease.is_read) {
    instances_[lease.instance]->end_lease(number);
    return;
  }
  const auto held = std::find(held_answers_.begin(), held_answers_.end(), lease.request);
  if (held == held_answers_.end()) return;
  Stay& stay = api_server_.on_way(lease.request);
  if (stay.restarts != lease.restarts || stay.is_kv_lost) return;
  stay.is_kv_lost = true;  // whoever asks for it learns that
  Instance& from = *instances_[lease.instance];
  stay.lost_last = from.cancel(lease.request).tokens;
  from.promise();
  from.engine().changed();
}

void Service::restart(std::uint32_t request) {
  cancel(request);
  Stay& stay = api_server_.on_way(request);
  if (!api_server_.has_token(request)) {  // what no instance counts is a wait for the memory of the second one
    Time sum;
    for (const Time part : stay.ttft.all()) sum += part;
    stay.ttft[TtftPart::decode_queue] += now() - stay.request.arrival - sum;
  }
  api_server_.restart(request);
}

void Service::withdraw(std::uint32_t request) {
  held_.erase(std::remove_if(held_.begin(), held_.end(), [&](const Held& held) { return held.request == request; }),
              held_.end());
  held_answers_.erase(std::remove(held_answers_.begin(), held_answers_.end(), request), held_answers_.end());
  const Stay& stay = api_server_.on_way(request);
  if (stay.visits.empty()) return;  // not routed
  const Visit &first = stay.visits.front(), &last = stay.visits.back();
  // Between its instances: the first one has it until another one asks.
  if (stay.visits.size() > 1 && first.done && !last.arrival && !exchange_.pushes()) --leaving_[first.instance];
  cancel(request);
  route_held_soon();
}

bool Service::is_lost(const Stay& stay) const {
  const auto has_failed = [&](const Visit& visit) {
    return visit.instance != Visit::kNowhere && presences_[visit.instance] != Presence::here &&
           presences_[visit.instance] != Presence::drained;
  };
  return std::any_of(stay.visits.begin(), stay.visits.end(), has_failed);
}

std::string Service::absences() const {
  static constexpr const char* kStates[] = {"", "is drained", "has failed", "has not joined", "loads its weights"};
  std::string text;
  for (std::uint32_t id = 0; id < instances_.size(); ++id)
    if (!router_.is_open(id))
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", instances_[id]->name(),
                          kStates[static_cast<std::size_t>(presences_[id])]);
  return text;
}

}  // namespace railyard::workload::inference
