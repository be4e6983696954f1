#include "probe/window_counter.h"

#include <algorithm>
#include <cmath>
#include <tuple>

namespace railyard::probe {

namespace {

constexpr Time kShortest = Time::us(1);
constexpr std::uint64_t kWindowsSoFar = 1024;
constexpr double kSame = 1e-6;  // means of a constant value differ by rounding errors

}  // namespace

std::pair<Time, Time> WindowCounter::window_at(Time now, Time longest) {
  Time length = kShortest;
  while (length < longest && length * kWindowsSoFar <= now) length = length * 2;
  const Time from = length * (now.fs() / length.fs());
  return {from, from + length};
}

void WindowCounter::add(Time from, Time to, double value) {
  if (value == 0) return;
  while (from < to) {
    if (from >= to_) {
      if (to_ != Time()) close(to_);
      const Time before = to_;
      std::tie(from_, to_) = window_at(from, longest_);
      if (before != from_) write(before, 0);
    }
    const Time part = std::min(to, to_);
    if (of_ == Of::mean) {
      collected_ += value * static_cast<double>((part - from).fs());
    } else {
      collected_ = std::max(collected_, value);
    }
    from = part;
  }
}

void WindowCounter::close(Time end) {
  write(from_, of_ == Of::mean ? collected_ / static_cast<double>((end - from_).fs()) : collected_);
  collected_ = 0;
}

void WindowCounter::finish(Time end) {
  if (to_ == Time()) return;
  if (from_ < end) close(std::min(end, to_));
  if (to_ < end) write(to_, 0);
}

void WindowCounter::write(Time at, double value) {
  if (std::abs(value - written_) <= kSame * std::max(value, written_)) return;
  if (of_ == Of::mean) {
    events_.counter(process_, name_, series_, at, value);
  } else {
    events_.counter(process_, name_, series_, at, static_cast<std::uint64_t>(value));
  }
  written_ = value;
}

}  // namespace railyard::probe
