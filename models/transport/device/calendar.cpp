#include "transport/device/calendar.h"

#include <algorithm>

namespace railyard::transport {

namespace {

constexpr Time kLongestRun = Time::fs(static_cast<std::uint64_t>(kLongestRunSeconds) * 1'000'000'000'000'000ull);

/// SplitMix64's finaliser: spreads a sequence number over 64 bits.
std::uint64_t scramble(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

constexpr std::uint64_t kLast = 1ull << 63;  ///< bit in the order of a run: the run comes last

/// Prefetches data of the next event while the previous event runs: its client and, if `data` is a pointer, three cache
/// lines at that address. Any other number does no harm.
template <class Event>
void prefetch(const Event& event) {
  __builtin_prefetch(event.client);
  const auto* about = reinterpret_cast<const char*>(event.data);
  __builtin_prefetch(about);
  __builtin_prefetch(about + 64);
  __builtin_prefetch(about + 128);
}

}  // namespace

Calendar::Calendar(sc_core::sc_module_name name) : sc_module(name) {
  SC_HAS_PROCESS(Calendar);
  SC_METHOD(run);
  sensitive << wake_;
  dont_initialize();
}

void Calendar::at(Time when, CalendarClient& client, std::uint32_t tag, std::uint64_t data) {
  if (!takes(when)) return;
  const std::uint32_t event = keep({&client, data, tag, kNone});
  ++pending_;
  Recent& latest = recent(recent_, when);
  if (latest.last != kNone && latest.when == when && tie_seed_ == 0) {
    storage_[latest.last].next = event;
    latest.last = event;
    return;  // this run has already woken the calendar
  }
  if (tie_seed_ == 0) latest = {when, event, 0};
  push({when, tie_seed_ == 0 ? sequence_++ : scramble(sequence_++ + tie_seed_) & ~kLast, event});
}

void Calendar::at_last(Time when, std::uint64_t turn, CalendarClient& client, std::uint32_t tag, std::uint64_t data) {
  if (!takes(when)) return;
  const std::uint32_t event = keep({&client, data, tag, kNone});
  ++pending_;
  const std::uint64_t order = kLast | turn;
  Recent& latest = recent(recent_last_, when);
  const bool joins = latest.last != kNone && latest.when == when && latest.order + 1 == order;
  if (joins) storage_[latest.last].next = event;
  latest = {when, event, order};
  if (!joins) push({when, order, event});
}

bool Calendar::takes(Time when) {
  now_ = now();
  if (when < now_) SC_REPORT_FATAL(name(), "an event in the past");
  if (when <= kLongestRun) return true;
  if (!overran_) overran_ = now_;
  return false;
}

void Calendar::push(const Run& run) {
  heap_.push_back(run);
  std::push_heap(heap_.begin(), heap_.end(), Later());
  if (!running_ && run.when < armed_) wake_at(run.when);
}

std::uint32_t Calendar::keep(const Event& event) {
  if (free_ == kNone) {
    storage_.push_back(event);
    return static_cast<std::uint32_t>(storage_.size() - 1);
  }
  const std::uint32_t number = free_;
  free_ = storage_[number].next;
  storage_[number] = event;
  return number;
}

void Calendar::wake_at(Time when) {
  armed_ = when;
  wake_.cancel();
  wake_.notify(sc_core::sc_time::from_value((when - now_).fs()));
}

std::uint32_t Calendar::run_event(std::uint32_t number, Recents& recents) {
  const Event event = storage_[number];
  if (event.next != kNone) prefetch(storage_[event.next]);
  ++events_;
  --pending_;
  event.client->on_event(event.tag, event.data);
  const std::uint32_t next = storage_[number].next;
  Recent& latest = recent(recents, now_);
  if (latest.last == number) latest.last = kNone;  // the run is over: new events of this instant start another run
  storage_[number].next = free_;
  free_ = number;
  return next;
}

void Calendar::run_from(std::uint32_t number) {
  while (number != kNone) number = run_event(number, recent_);
}

void Calendar::run_last_from(std::uint32_t number, std::uint64_t order) {
  while (true) {
    number = run_event(number, recent_last_);
    if (number == kNone) return;
    const Run rest{now_, ++order, number};
    if (!heap_.empty() && Later()(rest, heap_.front())) return push(rest);
  }
}

void Calendar::run() {
  now_ = Time::fs(sc_core::sc_time_stamp().value());
  armed_ = Time::max();
  // A foreign process can cause the calendar to run twice at one instant.
  if (hook_ && told_ != now_) {
    told_ = now_;
    if (!hook_(now_)) {
      sc_core::sc_stop();
      return;
    }
  }
  if (overran_) {
    sc_core::sc_stop();
    return;
  }
  running_ = true;
  while (!heap_.empty() && heap_.front().when == now_) {
    const Run run = heap_.front();
    std::pop_heap(heap_.begin(), heap_.end(), Later());
    heap_.pop_back();
    if (run.order & kLast) {
      run_last_from(run.first, run.order);
    } else {
      run_from(run.first);
    }
  }
  running_ = false;
  if (!heap_.empty()) {
    wake_at(heap_.front().when);
  } else if (idle_hook_ && !idle_hook_()) {
    sc_core::sc_stop();
  }
}

}  // namespace railyard::transport
