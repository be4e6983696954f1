#include "transport/fluid/stream.h"

#include <numeric>

namespace railyard::transport {

namespace {

/// Speeds closer to 1 than this count as 1, so a stream without contention has exact times.
constexpr double kFull = 1 - 1e-9;

}  // namespace

void FluidStream::begin(Time from, Time alone) {
  is_logged = path->crossings()[0].port->counters().log != nullptr;
  leaving.begun = from;
  leaving.whole = alone;
  leaving.pieces.clear();
  drain_from(from, alone);
}

void FluidStream::drain_from(Time from, Time alone) {
  if (!is_logged) leaving.pieces.clear();
  leaving.pieces.push_back({from, alone, speed});
  if (front->tell_waits) note_others();
  front->left_at = speed > 0 ? from + Leaving::scaled(alone, 1 / speed) : Time::max();
}

void FluidStream::take_rate() { speed = rate() >= demand * kFull ? 1 : rate() / demand; }

void FluidStream::change_speed(Time now) {
  book_wait(now);
  const Time left = leaving.pieces.back().rest(now);
  take_rate();
  drain_from(later(now, leaving.pieces.back().since), left);
}

void FluidStream::stop(Time now, double longer) {
  book_wait(now);
  const Time left = Leaving::scaled(leaving.pieces.back().rest(now), longer);
  speed = 0;
  drain_from(now, left);
}

void FluidStream::book_wait(Time until) const {
  const Time since = leaving.pieces.back().since;
  if (speed == 1 || until <= since) return;
  PortCounters& port = path->crossings()[narrowest()].port->counters();
  const Time waited = Leaving::scaled(until - since, 1 - speed);
  front->waited_at(port, waited);
  if (!front->tell_waits) return;
  const double all = std::accumulate(others.begin(), others.end(), 0.0);
  for (std::size_t c = 0; c < others.size(); ++c)
    if (others[c] > 0)
      front->client->on_waited(*front, port, static_cast<std::uint8_t>(c), Leaving::scaled(waited, others[c] / all));
}

void FluidStream::note_others() {
  others.clear();
  if (speed == 1) return;
  others.resize(kMaxClasses);
  for (const FluidPort::Member& member : path->crossings()[narrowest()].port->members)
    if (const auto& other = static_cast<const FluidStream&>(*member.flow); &other != this)
      others[other.key.traffic_class()] += other.rate();
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
