// Exact time for bytes: femtoseconds per byte as a reduced fraction, rounded up with the remainder carried, so that a
// message takes the same time however it is cut into transactions.
#pragma once

#include <cstdint>
#include <numeric>

#include "base/units.h"

namespace railyard::transport {

class ByteClock {
 public:
  ByteClock() = default;
  /// `fs` femtoseconds move `bytes` bytes. @pre bytes > 0
  ByteClock(std::uint64_t fs, std::uint64_t bytes) {
    const std::uint64_t divisor = std::gcd(fs, bytes);
    fs_ = fs / divisor;
    bytes_ = bytes / divisor;
  }
  explicit ByteClock(Rate rate) : ByteClock(1'000'000'000'000'000ull, rate.bytes_per_second()) {}

  /// Time for the next bytes of a gapless stream: the sum over a stream is its exact time, rounded up once.
  Time advance(Bytes bytes) {
    look_up(bytes);
    if (remainder_ > carry_) {
      carry_ = bytes_ - (remainder_ - carry_);
      return Time::fs(quotient_ + 1);
    }
    carry_ -= remainder_;
    return Time::fs(quotient_);
  }
  /// A gap in the stream: nothing is owed any more.
  void reset() { carry_ = 0; }
  /// Time for bytes alone, rounded up.
  Time time_for(Bytes bytes) {
    look_up(bytes);
    return Time::fs(quotient_ + (remainder_ != 0));
  }

 private:
  /// Most transactions on a link are of one size, so the last division is kept.
  void look_up(Bytes bytes) {
    if (bytes == cached_) return;
    cached_ = bytes;
    const auto product = static_cast<unsigned __int128>(bytes) * fs_;
    quotient_ = static_cast<std::uint64_t>(product / bytes_);
    remainder_ = static_cast<std::uint64_t>(product % bytes_);
  }

  std::uint64_t fs_ = 1, bytes_ = 1;
  std::uint64_t carry_ = 0;  ///< how much the stream so far has been rounded up, in 1/bytes_ fs
  Bytes cached_ = 0;
  std::uint64_t quotient_ = 0, remainder_ = 0;
};

}  // namespace railyard::transport
