// How far a run is, for people: a line that renews itself at a terminal, a line a minute in a log.
#pragma once

#include <optional>
#include <string>

#include "base/units.h"

namespace railyard {

/// When to say something, and what. Plain: the wall clock comes from the caller.
class ProgressLine {
 public:
  explicit ProgressLine(bool at_terminal) : interval_s_(at_terminal ? 0.2 : 60) {}

  /// Whether a line is due `wall_s` seconds after the run began; if so the next one is an interval later.
  bool due(double wall_s);
  /// "42 %, 1.234 s simulated, 3 of 10 requests done, about 12 s left"
  /// @param ratio  0 to 1: share of the run's work that is done, about
  static std::string text(double ratio, Time simulated, const std::string& what, double wall_s);

 private:
  double interval_s_, last_s_ = 0;
};

}  // namespace railyard
