// Counters of what changes too often to be written at each change: one value a window, its mean or its peak there, and none
// where that is the value before.
//
// Windows are powers of two of microseconds, about a thousandth of the time since the start, from 1 us to 128 us: fine where a run
// is short, few where it is long.
#pragma once

#include <string>
#include <utility>

#include "probe/trace_events.h"

namespace railyard::probe {

class WindowCounter {
 public:
  enum class Of { mean, peak };

  /// `events` outlives it.
  WindowCounter(TraceEvents& events, std::uint32_t process, std::string name, std::string series, Of of)
      : events_(events), process_(process), name_(std::move(name)), series_(std::move(series)), of_(of) {}

  /// It was `value` between these; wherever nobody says so it was 0. @pre not before what was said last
  void add(Time from, Time to, double value);
  /// Writes what is left. @param end  of the run
  void finish(Time end);

  /// The window around an instant, as its first instant and the next one's.
  static std::pair<Time, Time> window_at(Time now);

 private:
  void close(Time end);
  void write(Time at, double value);

  TraceEvents& events_;
  std::uint32_t process_;
  std::string name_, series_;
  Of of_;
  Time from_, to_;        ///< the window; to_ is 0 before the first
  double collected_ = 0;  ///< of a mean the value times femtoseconds
  double written_ = 0;
};

}  // namespace railyard::probe
