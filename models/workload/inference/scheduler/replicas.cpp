#include "workload/inference/scheduler/replicas.h"

#include <algorithm>
#include <utility>

namespace railyard::workload::inference {

Replicas::Replicas(std::vector<std::unique_ptr<Scheduler>> replicas, std::unique_ptr<ReplicaChoice> choice,
                   std::uint32_t max_in_flight)
    : replicas_(std::move(replicas)),
      choice_(std::move(choice)),
      loads_(replicas_.size()),
      max_in_flight_(max_in_flight) {}

bool Replicas::can_hold(const Request& request, RequestPart part) const {
  return replicas_.front()->can_hold(request, part);
}

void Replicas::add(std::uint32_t number, const Request& request, RequestContent content, RequestPart part) {
  for (std::size_t r = 0; r < replicas_.size(); ++r) {
    loads_[r].waiting = replicas_[r]->waiting();
    loads_[r].running = replicas_[r]->running();
  }
  const std::uint32_t chosen = choice_->choose(loads_, number);
  places_[number] = {chosen, part == RequestPart::prompt, request.prompt_tokens};
  ++loads_[chosen].requests;
  loads_[chosen].prompt_tokens += request.prompt_tokens;
  replicas_[chosen]->add(number, request, std::move(content), part);
}

void Replicas::uncount(Place& place) {
  if (!std::exchange(place.is_counted, false)) return;
  --loads_[place.replica].requests;
  loads_[place.replica].prompt_tokens -= place.prompt_tokens;
}

std::vector<Reservation> Replicas::reserve() {
  std::vector<Reservation> all;
  for (const auto& replica : replicas_)
    for (const Reservation& reservation : replica->reserve()) all.push_back(reservation);
  return all;
}

bool Replicas::may_compose() const {
  return in_flight_.size() < max_in_flight_ &&
         std::any_of(replicas_.begin(), replicas_.end(), [](const auto& s) { return s->may_compose(); });
}

ScheduledBatch Replicas::compose() {
  ScheduledBatch all;
  std::vector<std::uint32_t> composed;
  for (std::uint32_t r = 0; r < replicas_.size(); ++r) {
    if (!replicas_[r]->may_compose()) continue;
    ScheduledBatch batch = replicas_[r]->compose();
    for (ScheduledBatch::Item& item : batch.items) item.replica = r;
    if (!batch.items.empty()) composed.push_back(r);
    all.items.insert(all.items.end(), batch.items.begin(), batch.items.end());
    all.preempted.insert(all.preempted.end(), batch.preempted.begin(), batch.preempted.end());
    all.reservations.insert(all.reservations.end(), batch.reservations.begin(), batch.reservations.end());
    all.awaits.insert(all.awaits.end(), batch.awaits.begin(), batch.awaits.end());
    for (HostRead& read : batch.reads) read.replica = r;
    all.reads.insert(all.reads.end(), batch.reads.begin(), batch.reads.end());
  }
  if (!composed.empty()) in_flight_.push_back(std::move(composed));
  return all;
}

void Replicas::verify(ScheduledBatch& batch) const {
  for (std::uint32_t r = 0; r < replicas_.size(); ++r) {
    ScheduledBatch own = batch.of_replica(r);
    replicas_[r]->verify(own);
    auto verified = own.items.begin();
    for (ScheduledBatch::Item& item : batch.items)
      if (item.replica == r) item = *verified++;
  }
}

void Replicas::begun(const ScheduledBatch& batch) {
  for (std::uint32_t r = 0; r < replicas_.size(); ++r)
    if (const ScheduledBatch own = batch.of_replica(r); !own.items.empty()) replicas_[r]->begun(own);
}

std::vector<std::uint32_t> Replicas::complete(const ScheduledBatch& batch) {
  for (const std::uint32_t number : std::exchange(left_, {}))
    if (const auto own = places_.find(number); own != places_.end() && !own->second.keeps_kv) places_.erase(own);
  const std::vector<std::uint32_t> composed = std::move(in_flight_.front());
  in_flight_.pop_front();
  for (const std::uint32_t r : composed) {
    const ScheduledBatch own = batch.of_replica(r);  // without items, if all have been cancelled
    const std::vector<std::uint32_t> finished = replicas_[r]->complete(own);
    for (const std::uint32_t number : finished) uncount(places_.at(number));
    left_.insert(left_.end(), finished.begin(), finished.end());
  }
  return left_;
}

void Replicas::release(std::uint32_t number) {
  const auto own = places_.find(number);
  replicas_[own->second.replica]->release(number);
  uncount(own->second);
  places_.erase(own);
}

std::uint64_t Replicas::cancel(std::uint32_t number) {
  const auto own = places_.find(number);
  if (own == places_.end()) return 0;
  const std::uint64_t tokens = replicas_[own->second.replica]->cancel(number);
  uncount(own->second);
  places_.erase(own);
  return tokens;
}

std::uint64_t Replicas::keep(std::uint32_t number, std::uint64_t lease) {
  const auto own = places_.find(number);
  if (own == places_.end()) return 0;
  const std::uint64_t tokens = replicas_[own->second.replica]->keep(number, lease);
  if (tokens > 0) places_.erase(own);
  return tokens;
}

void Replicas::end_lease(std::uint64_t lease) {
  for (const auto& replica : replicas_) replica->end_lease(lease);
}

void Replicas::forget() {
  for (const auto& replica : replicas_) replica->forget();
}

bool Replicas::empty() const {
  return std::all_of(replicas_.begin(), replicas_.end(), [](const auto& s) { return s->empty(); });
}

std::size_t Replicas::running() const {
  std::size_t sum = 0;
  for (const auto& replica : replicas_) sum += replica->running();
  return sum;
}

std::size_t Replicas::waiting() const {
  std::size_t sum = 0;
  for (const auto& replica : replicas_) sum += replica->waiting();
  return sum;
}

Scheduler::Memory Replicas::memory() const {
  Memory sum;
  for (const auto& replica : replicas_) {
    const Memory one = replica->memory();
    sum.total += one.total;
    sum.free += one.free;
  }
  return sum;
}

void Replicas::follow_copies(BlockPool::Listener& in_host, BlockPool::Listener& on_disks) {
  for (const auto& replica : replicas_) replica->follow_copies(in_host, on_disks);
}

void Replicas::follow_blocks(BlockPool::Listener& listener) {
  for (const auto& replica : replicas_) replica->follow_blocks(listener);
}

Scheduler::Left Replicas::left() const {
  for (const auto& replica : replicas_)
    if (const Left left = replica->left(); left.refusal != Refusal::none) return left;
  return {};
}

std::string Replicas::blocked() const {
  std::string all;
  for (const auto& replica : replicas_) {
    const std::string one = replica->blocked();
    if (!all.empty() && !one.empty()) all += "; ";
    all += one;
  }
  return all;
}

}  // namespace railyard::workload::inference
