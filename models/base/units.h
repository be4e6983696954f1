// The room `base` has what every other room uses and includes nothing of them: Time and Rate as integers, Index and
// Table by typed numbers (index.h), number formats (data_type.h), Random, InputError for what a user wrote, Output and
// OutputFailure for files, and the status with which a job ends (status.h).
//
// Quantities of the model: instants and durations in integer femtoseconds, rates in integer bytes per second.
//
// One femtosecond resolves 256 B at 900 GB/s (284.4 ps) to better than 0.001 %; 64 unsigned bits hold 5.1 hours. A
// duration that does not fit becomes Time::max(), and the calendar ends a run that reaches Time::max(), so no result
// overflows. All arithmetic is integer, with 128-bit intermediates, so no result depends on the order of floating-point
// sums.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

namespace railyard {

using Bytes = std::uint64_t;

/// Longest simulated time of a run: the range of Time, rounded down to whole hours.
constexpr double kLongestRunSeconds = 18000;

/// The nearest 64-bit integer; the largest one if the value is larger or not a number.
inline std::uint64_t saturated(double value) {
  constexpr double kBeyond = 18446744073709551616.0;
  return value < kBeyond ? static_cast<std::uint64_t>(std::nearbyint(value))
                         : std::numeric_limits<std::uint64_t>::max();
}

/// An instant or a duration, in femtoseconds. Never negative: subtract the earlier from the later.
class Time {
 public:
  constexpr Time() = default;
  static constexpr Time fs(std::uint64_t value) { return Time(value); }
  static constexpr Time ps(std::uint64_t value) { return Time(value * 1'000ull); }
  static constexpr Time ns(std::uint64_t value) { return Time(value * 1'000'000ull); }
  static constexpr Time us(std::uint64_t value) { return Time(value * 1'000'000'000ull); }
  static constexpr Time ms(std::uint64_t value) { return Time(value * 1'000'000'000'000ull); }
  /// Rounds a floating-point duration to the nearest femtosecond. Kernel-time formulas are rounded only here.
  static Time seconds(double value) { return Time(saturated(value * 1e15)); }
  static Time nanoseconds(double value) { return Time(saturated(value * 1e6)); }
  /// Later than every instant that a run can reach. Also means "not scheduled" or "a duration that does not fit".
  static constexpr Time max() { return Time(std::numeric_limits<std::uint64_t>::max()); }

  constexpr std::uint64_t fs() const { return fs_; }
  constexpr double seconds() const { return static_cast<double>(fs_) * 1e-15; }

  constexpr Time operator+(Time other) const {
    std::uint64_t sum = 0;
    return __builtin_add_overflow(fs_, other.fs_, &sum) ? max() : Time(sum);
  }
  constexpr Time operator-(Time earlier) const { return Time(fs_ - earlier.fs_); }
  constexpr Time operator*(std::uint64_t n) const {
    std::uint64_t product = 0;
    return __builtin_mul_overflow(fs_, n, &product) ? max() : Time(product);
  }
  constexpr Time& operator+=(Time other) { return *this = *this + other; }
  constexpr bool operator==(Time o) const { return fs_ == o.fs_; }
  constexpr bool operator!=(Time o) const { return fs_ != o.fs_; }
  constexpr bool operator<(Time o) const { return fs_ < o.fs_; }
  constexpr bool operator<=(Time o) const { return fs_ <= o.fs_; }
  constexpr bool operator>(Time o) const { return fs_ > o.fs_; }
  constexpr bool operator>=(Time o) const { return fs_ >= o.fs_; }

 private:
  constexpr explicit Time(std::uint64_t value) : fs_(value) {}
  std::uint64_t fs_ = 0;
};

constexpr Time later(Time a, Time b) { return a < b ? b : a; }
constexpr Time sooner(Time a, Time b) { return a < b ? a : b; }
/// max(0, a - b)
constexpr Time since(Time a, Time b) { return a > b ? a - b : Time(); }

/// A data rate in one direction, in bytes per second.
class Rate {
 public:
  constexpr Rate() = default;
  static constexpr Rate bytes_per_second(std::uint64_t value) { return Rate(value); }
  /// GB/s as in every datasheet of Railyard: 1e9 bytes per second in one direction.
  static Rate gb_per_s(double value) { return Rate(static_cast<std::uint64_t>(std::llround(value * 1e9))); }

  constexpr std::uint64_t bytes_per_second() const { return value_; }
  constexpr double gb_per_s() const { return static_cast<double>(value_) * 1e-9; }
  constexpr bool operator==(Rate o) const { return value_ == o.value_; }
  constexpr bool operator!=(Rate o) const { return value_ != o.value_; }
  constexpr bool operator<(Rate o) const { return value_ < o.value_; }
  constexpr bool operator>(Rate o) const { return value_ > o.value_; }

  /// Time to move `bytes` at this rate, rounded up. @pre the rate is not zero
  Time time_for(Bytes bytes) const {
    const auto numerator = static_cast<unsigned __int128>(bytes) * 1'000'000'000'000'000ull;
    const unsigned __int128 fs = (numerator + value_ - 1) / value_;
    return fs >> 64 == 0 ? Time::fs(static_cast<std::uint64_t>(fs)) : Time::max();
  }
  /// Whole bytes moved in `duration`, rounded down.
  Bytes bytes_in(Time duration) const {
    return static_cast<Bytes>(static_cast<unsigned __int128>(duration.fs()) * value_ / 1'000'000'000'000'000ull);
  }

 private:
  constexpr explicit Rate(std::uint64_t value) : value_(value) {}
  std::uint64_t value_ = 0;
};

constexpr Rate slower(Rate a, Rate b) { return b < a ? b : a; }

/// part / whole of a duration, rounded down. @pre part <= whole
constexpr Time share(Time t, std::uint64_t part, std::uint64_t whole) {
  if (part == whole) return t;  // the most frequent case
  return Time::fs(static_cast<std::uint64_t>(static_cast<unsigned __int128>(t.fs()) * part / whole));
}

/// A sum of durations that may exceed the range of Time. It is exact, so the order of adding does not matter.
class TimeSum {
 public:
  void add(Time t) { fs_ += t.fs(); }
  void add(const TimeSum& other) { fs_ += other.fs_; }
  /// @pre earlier is a former value of this sum
  TimeSum since(const TimeSum& earlier) const {
    TimeSum difference;
    difference.fs_ = fs_ - earlier.fs_;
    return difference;
  }
  TimeSum operator*(std::uint64_t n) const {
    TimeSum product;
    product.fs_ = fs_ * n;
    return product;
  }
  double seconds() const { return static_cast<double>(fs_) * 1e-15; }
  bool operator==(const TimeSum& other) const { return fs_ == other.fs_; }

 private:
  unsigned __int128 fs_ = 0;
};

constexpr std::uint64_t ceil_div(std::uint64_t a, std::uint64_t b) { return (a + b - 1) / b; }

}  // namespace railyard
