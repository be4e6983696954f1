// Counters for values that change too often to write each change: one value per window, the mean or the peak in the
// window. A value equal to the previous one is not written.
//
// A window is a power of two of microseconds, about a thousandth of the time since the start: from 1 us to 128 us, or to
// 8192 us where there are many counters. So short runs have fine windows, and long runs have few.
#pragma once

#include <string>
#include <utility>

#include "probe/trace_events.h"

namespace railyard::probe {

class WindowCounter {
 public:
  enum class Of { mean, peak };
  static constexpr Time kLongest = Time::us(128), kLongestOfMany = Time::us(8192);

  /// `events` outlives this object. @param longest  window
  WindowCounter(TraceEvents& events, std::uint32_t process, std::string name, std::string series, Of of, Time longest)
      : events_(events),
        process_(process),
        name_(std::move(name)),
        series_(std::move(series)),
        of_(of),
        longest_(longest) {}

  /// The counter is `value` from `from` to `to`, and 0 at all times that are not added. @pre intervals come in order of
  /// time
  void add(Time from, Time to, double value);
  /// Writes the last window. @param end  end of the run
  void finish(Time end);

  /// The window of an instant: its first instant, and the first instant of the next window.
  static std::pair<Time, Time> window_at(Time now, Time longest);

 private:
  void close(Time end);
  void write(Time at, double value);

  TraceEvents& events_;
  std::uint32_t process_;
  std::string name_, series_;
  Of of_;
  Time longest_;
  Time from_, to_;        ///< the window; to_ is 0 before the first
  double collected_ = 0;  ///< peak; or for a mean, the sum of value x femtoseconds
  double written_ = 0;
};

}  // namespace railyard::probe
