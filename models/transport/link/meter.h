// A rate that several flows share and that belongs to no link, such as the rate between two GPUs below different
// sockets. A train starts after the time of all trains that the meter has counted before. A meter has counters like a
// link and appears beside the links.
#pragma once

#include "transport/link/byte_clock.h"
#include "transport/link/counters.h"

namespace railyard::transport {

struct FluidPort;

class Meter {
 public:
  explicit Meter(Rate rate) : rate_(rate), clock_(rate) {}

  Rate rate() const { return rate_; }
  Time free() const { return free_; }
  /// Bytes that arrive at `when` take their time from then on, or after all earlier bytes.
  void take(Time when, Bytes bytes) {
    if (when > free_) clock_.reset();
    const Time time = clock_.advance(bytes);
    free_ = later(free_, when) + time;
    ++counters.transactions;
    counters.payload_bytes += bytes;
    counters.wire_bytes += bytes;
    counters.charge(free_, time);
  }
  /// Time charged until `now`. The counted bytes can take time beyond `now`.
  Time busy_until(Time now) const { return counters.busy - since(free_, now) - counters.ahead(now); }

  PortCounters counters;
  FluidPort* fluid = nullptr;  ///< in fluid fidelity: the meter as a port of streams

 private:
  Rate rate_;
  ByteClock clock_;
  Time free_;
};

}  // namespace railyard::transport
