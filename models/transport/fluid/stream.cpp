#include "transport/fluid/stream.h"

#include <cmath>

namespace railyard::transport {

namespace {

/// Speeds closer to 1 than this count as 1, so a stream without contention has exact times.
constexpr double kFull = 1 - 1e-9;

Time scaled(Time time, double factor) {
  return factor == 1 ? time
                     : Time::fs(static_cast<std::uint64_t>(std::nearbyint(static_cast<double>(time.fs()) * factor)));
}

}  // namespace

void FluidStream::drain_from(Time from, Time alone) {
  since = from;
  remaining = alone;
  front->left_at = speed > 0 ? from + scaled(alone, 1 / speed) : Time::max();
}

void FluidStream::take_rate() { speed = rate() >= demand * kFull ? 1 : rate() / demand; }

Time FluidStream::rest(Time now) const {
  return railyard::since(remaining, scaled(railyard::since(now, since), speed));
}

void FluidStream::change_speed(Time now) {
  book_wait(now);
  const Time left = rest(now);
  take_rate();
  drain_from(later(now, since), left);
}

void FluidStream::stop(Time now, double longer) {
  book_wait(now);
  const Time left = scaled(rest(now), longer);
  speed = 0;
  drain_from(now, left);
}

void FluidStream::book_wait(Time until) const {
  if (speed == 1 || until <= since) return;
  front->waited_at(path->crossings()[narrowest()].port->counters(), scaled(until - since, 1 - speed));
}

void FluidStream::push(Message& message) {
  message.next = nullptr;
  (front == nullptr ? front : back->next) = &message;
  back = &message;
}

void FluidStream::front_left() {
  Message& message = *front;
  front = message.next;
  lands = message.finished = later(lands, message.left_at + message.finished);
  message.next = nullptr;
  (landing == nullptr ? landing : last_landing->next) = &message;
  last_landing = &message;
  if (message.tell_left && untold == nullptr) untold = &message;
}

}  // namespace railyard::transport
