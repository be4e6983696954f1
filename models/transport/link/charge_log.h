// Charges of the line of one port during a collective that is recorded for reuse. A replay adds all charges of the
// collective to the port's counters at once; the log gives the part of them that lies in the future at a given instant.
// A train is charged in one interval. A fluid message is charged evenly while its bytes leave (Leaving), as slowly as others
// let it leave; several of them share a line.
#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "base/units.h"

namespace railyard::transport {

/// How the bytes of a fluid message leave their source.
struct Leaving {
  /// From an instant on, at one speed.
  struct Piece {
    Time since;
    Time remaining;    ///< time of the rest at speed 1
    double speed = 1;  ///< part of the speed of a message alone

    Time rest(Time now) const { return railyard::since(remaining, scaled(railyard::since(now, since), speed)); }
  };
  Time begun, left;
  Time whole;                 ///< time of all bytes at speed 1
  std::vector<Piece> pieces;  ///< at least one

  /// Of this time that the message charges to a line, what is charged until `now`. @pre now is before `left`
  Time charged(Time busy, Time now) const {
    if (now <= begun) return Time();
    const auto next = std::find_if(pieces.begin() + 1, pieces.end(), [now](const Piece& p) { return p.since > now; });
    return charged(busy, now - begun, since(whole, std::prev(next)->rest(now)), whole);
  }
  /// The same `lasted` after its begin, if this part of the whole has left.
  static Time charged(Time busy, Time lasted, Time part, Time whole) {
    return sooner(share(busy, part.fs(), whole.fs()), lasted);
  }
  static Time scaled(Time time, double factor) {
    return factor == 1 ? time
                       : Time::fs(static_cast<std::uint64_t>(std::nearbyint(static_cast<double>(time.fs()) * factor)));
  }
};

class ChargeLog {
 public:
  /// @param from  the first instant of the collective; times are relative to it
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
  /// Adds the charge of a fluid message.
  void add(std::shared_ptr<const Leaving> message, Time time) { messages_.push_back({std::move(message), time, {}}); }
  /// All charges have been added.
  void finish() {
    std::sort(messages_.begin(), messages_.end(),
              [](const Message& a, const Message& b) { return a.leaving->left < b.leaving->left; });
    Time later_ones;
    for (auto message = messages_.rbegin(); message != messages_.rend(); ++message) {
      message->later_ones = later_ones;
      later_ones += message->time;
      longest_ = later(longest_, message->leaving->left - message->leaving->begun);
    }
  }
  std::size_t size() const { return intervals_.size() + messages_.size(); }
  /// The charged time that lies later than `after` the first instant. @pre finish()
  Time charged_after(Time after) const { return of_trains(after) + of_messages(from_ + after); }

 private:
  struct Interval {
    Time end;
    Time in_all;  ///< charged from the first instant to the end of this interval
  };
  struct Message {
    std::shared_ptr<const Leaving> leaving;
    Time time;
    Time later_ones;  ///< charges of those behind it
  };
  Time charged() const { return intervals_.empty() ? Time() : intervals_.back().in_all; }
  Time of_trains(Time after) const {
    const auto first =
        std::partition_point(intervals_.begin(), intervals_.end(), [&](const Interval& i) { return i.end <= after; });
    if (first == intervals_.end()) return Time();
    const Time before = first == intervals_.begin() ? Time() : std::prev(first)->in_all;
    return charged() - first->in_all + sooner(first->in_all - before, first->end - after);
  }
  Time of_messages(Time now) const {
    Time sum;
    for (auto message = std::partition_point(messages_.begin(), messages_.end(),
                                             [&](const Message& m) { return m.leaving->left <= now; });
         message != messages_.end(); ++message) {
      if (message->leaving->left - longest_ >= now) return sum + message->time + message->later_ones;
      sum += since(message->time, message->leaving->charged(message->time, now));
    }
    return sum;
  }

  Time from_;
  std::vector<Interval> intervals_;
  std::vector<Message> messages_;  ///< finish(): in the order in which they have left
  Time longest_;                   ///< from begin to end of any of them
};

}  // namespace railyard::transport
