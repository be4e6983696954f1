// A rate that several flows share and that is no link's, as that of two GPUs below different sockets: a train starts when all
// trains that the meter has counted before have taken their time. Counted as the links are, so that it appears beside them.
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
  /// Bytes that come at `when` take their time from then on, or after those before them.
  void take(Time when, Bytes bytes) {
    if (when > free_) clock_.reset();
    const Time time = clock_.advance(bytes);
    const Time begin = later(free_, when);
    free_ = begin + time;
    ++counters.transactions;
    counters.payload_bytes += bytes;
    counters.wire_bytes += bytes;
    counters.charge(begin, free_);
  }
  /// Charged by `now`: what it has counted goes on after that.
  Time busy_until(Time now) const { return counters.busy - since(free_, now) - counters.ahead(now); }

  PortCounters counters;
  FluidPort* fluid = nullptr;  ///< in fluid fidelity: it as streams see it

 private:
  Rate rate_;
  ByteClock clock_;
  Time free_;
};

}  // namespace railyard::transport
