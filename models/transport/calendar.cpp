#include "transport/calendar.h"

#include <algorithm>

namespace railyard::transport {

namespace {

/// SplitMix64's finaliser: spreads a sequence number over 64 bits.
std::uint64_t scramble(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

}  // namespace

Calendar::Calendar(sc_core::sc_module_name name) : sc_module(name) {
  SC_HAS_PROCESS(Calendar);
  SC_METHOD(run);
  sensitive << wake_;
  dont_initialize();
}

void Calendar::at(Time when, CalendarClient& client, std::uint32_t tag, std::uint64_t data) {
  now_ = now();
  if (when < now_) SC_REPORT_FATAL(name(), "an event in the past");
  const std::uint64_t order = tie_seed_ == 0 ? sequence_++ : scramble(sequence_++ + tie_seed_);
  heap_.push_back({when, order, &client, data, tag});
  std::push_heap(heap_.begin(), heap_.end(), Later());
  if (!running_ && when < armed_) wake_at(when);
}

void Calendar::wake_at(Time when) {
  armed_ = when;
  wake_.cancel();
  wake_.notify(sc_core::sc_time::from_value((when - now_).fs()));
}

void Calendar::run() {
  now_ = Time::fs(sc_core::sc_time_stamp().value());
  armed_ = Time::max();
  // A foreign process may have the calendar run twice at one instant.
  if (hook_ && told_ != now_) {
    told_ = now_;
    if (!hook_(now_)) {
      sc_core::sc_stop();
      return;
    }
  }
  running_ = true;
  while (!heap_.empty() && heap_.front().when == now_) {
    const Event event = heap_.front();
    std::pop_heap(heap_.begin(), heap_.end(), Later());
    heap_.pop_back();
    ++events_;
    event.client->on_event(event.tag, event.data);
  }
  running_ = false;
  if (!heap_.empty()) wake_at(heap_.front().when);
}

}  // namespace railyard::transport
