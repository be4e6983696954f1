// Progress of a run for users: on a terminal, a line that is updated in place; in a log, one line per minute.
#pragma once

#include <optional>
#include <string>

#include "base/units.h"

namespace railyard {

/// Decides when to print a line, and its text. The caller passes the wall clock time.
class ProgressLine {
 public:
  explicit ProgressLine(bool at_terminal) : interval_s_(at_terminal ? 0.2 : 60) {}

  /// True if a line is due `wall_s` seconds after the run began; the next line is due one interval later.
  bool due(double wall_s);
  /// "42 %, 1.234 s simulated, 3 of 10 requests done, about 12 s left"
  /// @param ratio  0 to 1: estimated share of the run's work that is done
  static std::string text(double ratio, Time simulated, const std::string& what, double wall_s);

 private:
  double interval_s_, last_s_ = 0;
};

}  // namespace railyard
