// What a service knows of the future: when a batch may be complete, a request may come, or KV may be asked for.
#include <algorithm>

#include "workload/inference/service/service.h"

namespace railyard::workload::inference {

Time Service::next_complete(Instance& instance) {
  if (instance.engine().in_flight() > 0) return instance.engine().next_complete();
  const Time least = instance.engine().pipeline().least_pass();
  if (!instance.scheduler().empty()) return now() + least;
  const Time queued = next_queued();
  return queued == Time::max() ? queued : queued + least;
}

Time Service::next_queued() { return sooner(next_change(), next_sent()); }

Time Service::next_added() {
  const bool is_any_held = !held_.empty() || !held_answers_.empty();
  return count_of(InstanceRole::prefill) > 0 || is_any_held ? now() : next_queued();
}

Time Service::next_sent() {
  const auto is_any = [](std::uint32_t count) { return count > 0; };
  if (exchange_.moves() || std::any_of(leaving_.begin(), leaving_.end(), is_any)) return api_server_.next_queued(now());
  Time answered = Time::max();
  for (const auto& instance : instances_)
    if (!instance->scheduler().empty() || instance->engine().in_flight() > 0)
      answered = sooner(answered, next_complete(*instance));
  return api_server_.next_queued(answered);
}

Time Service::next_transfer(const Instance& from, const Instance& to) {
  Instance &first = *instances_[from.id()], &second = *instances_[to.id()];
  Time next = exchange_.pushes() ? next_queued() : next_complete(first);
  if (leaving_[from.id()] > 0) next = now();
  if (waiting_[{from.id(), to.id()}] > 0)  // the next batch takes memory for them
    next = second.scheduler().may_compose() ? now() : sooner(next, next_complete(second));
  return next;
}

Time Service::next_kv(const Instance& from) {
  Instance& instance = *instances_[from.id()];
  const Pipeline& pipeline = instance.engine().pipeline();
  if (instance.engine().in_flight() > 0) return pipeline.next_kv();
  const auto is_promised = [&](const auto& each) { return each.first.first == from.id() && each.second > 0; };
  const bool has_next = !instance.scheduler().empty() || std::any_of(waiting_.begin(), waiting_.end(), is_promised);
  const Time queued = has_next ? now() : next_queued();
  return queued == Time::max() ? queued : queued + pipeline.least_until_kv();
}

}  // namespace railyard::workload::inference
