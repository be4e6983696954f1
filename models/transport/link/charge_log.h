// Charges of the line of one port during a collective that is recorded for reuse. A replay adds all charges of the
// collective to the port's counters at once; the log gives the part of them that lies in the future at a given instant.
#pragma once

#include <algorithm>
#include <vector>

#include "base/units.h"

namespace railyard::transport {

class ChargeLog {
 public:
  /// @param from  the first instant of the collective; times in the log are relative to it
  explicit ChargeLog(Time from) : from_(from) {}

  /// Adds a charge that ends at `end`. Where it would overlap earlier charges, these move to earlier times, because a line
  /// is charged at most all the time. @pre ends are in order
  void add(Time end, Time time) {
    if (time == Time()) return;
    const Interval latest{end - from_, charged() + time};
    while (!intervals_.empty() && latest.end <= intervals_.back().end + (latest.in_all - intervals_.back().in_all))
      intervals_.pop_back();
    intervals_.push_back(latest);
  }
  std::size_t size() const { return intervals_.size(); }
  /// The charged time that lies later than `after` the first instant.
  Time charged_after(Time after) const {
    const auto first =
        std::partition_point(intervals_.begin(), intervals_.end(), [&](const Interval& i) { return i.end <= after; });
    if (first == intervals_.end()) return Time();
    const Time before = first == intervals_.begin() ? Time() : std::prev(first)->in_all;
    return charged() - first->in_all + sooner(first->in_all - before, first->end - after);
  }

 private:
  struct Interval {
    Time end;
    Time in_all;  ///< charged from the first instant to the end of this interval
  };
  Time charged() const { return intervals_.empty() ? Time() : intervals_.back().in_all; }

  Time from_;
  std::vector<Interval> intervals_;
};

}  // namespace railyard::transport
