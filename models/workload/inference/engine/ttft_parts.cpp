#include "workload/inference/engine/ttft_parts.h"

#include <algorithm>

namespace railyard::workload::inference {

TtftPart TtftClock::queue_part(Refusal refusal) const {
  switch (refusal) {
    case Refusal::slots: return TtftPart::queue_slots;
    case Refusal::budget: return TtftPart::queue_budget;
    case Refusal::unseen: return TtftPart::step_alignment;
    default: return TtftPart::queue_blocks;
  }
}

TtftPart TtftClock::part_of(PassActivity activity) const {
  switch (activity) {
    case PassActivity::kernels: return TtftPart::prefill_kernels;
    case PassActivity::collective: return TtftPart::tp;
    // With one stage, the pass waits for the stage's slowest rank.
    case PassActivity::left_stage: return stages_ > 1 ? TtftPart::pp : TtftPart::tp;
    case PassActivity::before_stage: return TtftPart::queue_pipeline;
    default: return TtftPart::host;
  }
}

void TtftClock::Clock::turn(TtftPart to, Time now) {
  times[part] += now - since;
  part = to;
  since = now;
}

TtftTimes TtftClock::Clock::at(Time now) const {
  TtftTimes sum = times;
  sum[part] += now - since;
  return sum;
}

TtftClock::Request* TtftClock::find(std::uint32_t number) {
  const auto found = requests_.find(number);
  return found == requests_.end() ? nullptr : &found->second;
}

TtftClock::Request* TtftClock::find(const ScheduledBatch::Item& item) {
  if (item.is_decode && answers_ == 0) return nullptr;
  Request* const request = find(item.request);
  return request != nullptr && (!item.is_decode || request->is_answer) ? request : nullptr;
}

TtftClock::Pass& TtftClock::pass(std::uint32_t number, Time now) {
  Pass& pass = passes_[number - first_];
  for (; !pass.ahead.empty() && pass.ahead.front().first <= now; pass.ahead.pop_front())
    pass.turn(pass.ahead.front().second, pass.ahead.front().first);
  return pass;
}

const TtftClock::Clock* TtftClock::shared(const Request& request, Time now) {
  if (request.pass) return &pass(*request.pass, now);
  return request.in_queue ? &queue_ : nullptr;
}

void TtftClock::settle(Request& request, Time now) {
  if (const Clock* const clock = shared(request, now)) {
    const TtftTimes times = clock->at(now);
    request.times.add(times, request.before);
    request.before = times;
    request.since = now;
  } else {
    request.turn(request.part, now);
  }
}

void TtftClock::join(Request& request, std::uint32_t number, Time now) {
  settle(request, now);
  request.pass = number;
  request.in_queue = false;
  request.before = pass(number, now).at(now);
}

void TtftClock::enter_queue(Request& request, Time now) {
  wait(request, request.part, now);
  request.in_queue = true;
  request.before = queue_.at(now);
}

void TtftClock::wait(Request& request, TtftPart part, Time now) {
  settle(request, now);
  request.pass.reset();
  request.in_queue = false;
  request.next.clear();
  request.part = part;
}

void TtftClock::queued(std::uint32_t number, RequestPart part, Time now) {
  Request& request = requests_[number];
  request.is_answer = part == RequestPart::answer;
  if (request.is_answer) ++answers_;
  request.part = TtftPart::step_alignment;
  request.since = now;
  new_.push_back(number);
}

void TtftClock::awaits(std::uint32_t number, Time now) {
  Request& request = requests_[number];
  request.is_answer = true;
  ++answers_;
  request.part = TtftPart::kv;
  request.since = now;
}

void TtftClock::fetched(std::uint32_t number, Time now) {
  if (find(number) == nullptr) return;
  wait(number, TtftPart::step_alignment, now);
  new_.push_back(number);
}

void TtftClock::composed(const ScheduledBatch& batch, const Scheduler& scheduler, Time now) {
  new_.insert(new_.end(), batch.preempted.begin(), batch.preempted.end());
  for (const std::uint32_t number : new_)
    if (Request* const request = find(number)) enter_queue(*request, now);
  new_.clear();
  if (Request* const head = head_ ? find(*head_) : nullptr; head != nullptr) enter_queue(*head, now);
  head_.reset();

  if (!batch.items.empty()) {
    // The new pass waits for the stage until the pass before it has left the first stage.
    const bool is_stage_busy = !passes_.empty() && !passes_.back().has_left_first;
    const auto number = static_cast<std::uint32_t>(first_ + passes_.size());
    passes_.emplace_back();
    passes_.back().part = is_stage_busy ? TtftPart::queue_pipeline : TtftPart::host;
    passes_.back().since = now;
    for (const ScheduledBatch::Item& item : batch.items) {
      Request* const request = find(item);
      if (request == nullptr) continue;
      passes_.back().is_followed = true;
      if (request->pass) {
        request->next.push_back(number);
      } else {
        join(*request, number, now);
      }
    }
  }
  if (scheduler.waiting() == 0) return;
  const Scheduler::Left left = scheduler.left();
  queue_.turn(left.refuses_all ? queue_part(left.refusal) : TtftPart::queue_behind, now);
  if (left.refuses_all) return;
  head_ = left.first;
  if (Request* const head = find(*head_)) wait(*head, queue_part(left.refusal), now);
}

void TtftClock::begun(std::uint32_t number, const ScheduledBatch& batch, Time now) {
  for (const ScheduledBatch::Item& item : batch.items) {
    Request* const request = find(item);
    if (request == nullptr || request->next.empty() || request->next.front() != number) continue;
    request->next.erase(request->next.begin());
    join(*request, number, now);
  }
}

void TtftClock::acts(std::uint32_t number, std::uint32_t stage, PassActivity activity, Time when, Time now) {
  Pass& pass = this->pass(number, now);
  if (now < when) {
    pass.ahead.emplace_back(when, part_of(activity));
    return;
  }
  pass.turn(part_of(activity), now);
  if (activity != PassActivity::left_stage || stage != 0) return;
  pass.has_left_first = true;
  if (number + 1 < first_ + passes_.size()) this->pass(number + 1, now).turn(TtftPart::host, now);
}

TtftTimes TtftClock::first_token(std::uint32_t number, Time now) {
  Request& request = requests_.at(number);
  settle(request, now);
  TtftTimes times = request.times;
  if (request.is_answer) {
    times.move(TtftPart::prefill_kernels, TtftPart::decode_kernels);
    for (const TtftPart part :
         {TtftPart::queue_slots, TtftPart::queue_budget, TtftPart::queue_blocks, TtftPart::queue_behind})
      times.move(part, TtftPart::decode_queue);
    --answers_;
  }
  requests_.erase(number);
  return times;
}

void TtftClock::completed(const ScheduledBatch& batch, Time now) {
  for (const ScheduledBatch::Item& item : batch.items) {
    Request* const request = find(item);
    if (request == nullptr || request->pass != first_) continue;
    if (request->next.empty()) {
      wait(*request, TtftPart::step_alignment, now);
    } else {
      const std::uint32_t next = request->next.front();
      request->next.erase(request->next.begin());
      join(*request, next, now);
    }
  }
  passes_.pop_front();
  ++first_;
}

}  // namespace railyard::workload::inference
