// The wall clock as instants of the simulated run. Plain C++.
#pragma once

#include <chrono>

#include "base/units.h"

namespace railyard::serve {

using WallClock = std::chrono::steady_clock;

class Pacer {
 public:
  /// @param pace   simulated seconds in a second of the wall clock, above 0
  /// @param start  time zero of the run
  Pacer(double pace, WallClock::time_point start) : pace_(pace), start_(start) {}

  /// The simulated instant that is due at an instant of the wall clock; time zero before the start.
  Time simulated(WallClock::time_point wall) const {
    const double seconds = std::chrono::duration<double>(wall - start_).count();
    return seconds > 0 ? Time::seconds(seconds * pace_) : Time();
  }
  /// When a simulated instant is due.
  WallClock::time_point due(Time at) const {
    return start_ +
           std::chrono::duration_cast<WallClock::duration>(std::chrono::duration<double>(at.seconds() / pace_));
  }

 private:
  double pace_;
  WallClock::time_point start_;
};

}  // namespace railyard::serve
