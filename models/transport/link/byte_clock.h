// Exact time for bytes: femtoseconds per byte as a reduced fraction. Times are rounded up and the remainder is carried,
// so a message takes the same time with any transaction size.
#pragma once

#include <cstdint>
#include <numeric>

#include "base/units.h"
#include "transport/link/link.h"

namespace railyard::transport {

/// Time per byte; shared by all streams of one rate.
class BytePrice {
 public:
  BytePrice() = default;
  /// `fs` femtoseconds move `bytes` bytes. @pre bytes > 0
  BytePrice(std::uint64_t fs, std::uint64_t bytes) {
    const std::uint64_t divisor = std::gcd(fs, bytes);
    fs_ = fs / divisor;
    bytes_ = bytes / divisor;
  }
  explicit BytePrice(Rate rate) : BytePrice(1'000'000'000'000'000ull, rate.bytes_per_second()) {}

  /// Time for the next bytes of a gapless stream. The sum over a stream is its exact time, rounded up once.
  /// @param carry  of the stream: the amount by which its time has been rounded up so far; 0 at its start
  Time advance(Bytes bytes, std::uint64_t& carry) {
    look_up(bytes);
    if (remainder_ > carry) {
      carry = bytes_ - (remainder_ - carry);
      return Time::fs(quotient_ + 1);
    }
    carry -= remainder_;
    return Time::fs(quotient_);
  }
  /// Time for bytes alone, rounded up.
  Time time_for(Bytes bytes) {
    look_up(bytes);
    return Time::fs(quotient_ + (remainder_ != 0));
  }

 private:
  /// Most transactions on a link have the same size, so the last division is cached.
  void look_up(Bytes bytes) {
    if (bytes == cached_) return;
    cached_ = bytes;
    const auto product = static_cast<unsigned __int128>(bytes) * fs_;
    if (product >> 64 == 0) {
      quotient_ = static_cast<std::uint64_t>(product) / bytes_;
      remainder_ = static_cast<std::uint64_t>(product) % bytes_;
    } else {
      const unsigned __int128 quotient = product / bytes_;
      quotient_ = quotient >> 64 == 0 ? static_cast<std::uint64_t>(quotient) : kNever;
      remainder_ = static_cast<std::uint64_t>(product % bytes_);
    }
  }

  static constexpr std::uint64_t kNever = ~std::uint64_t(0) - 1;  ///< one femtosecond may be added

  std::uint64_t fs_ = 1, bytes_ = 1;
  Bytes cached_ = 0;
  std::uint64_t quotient_ = 0, remainder_ = 0;
};

/// Price in the unit that limits the pace on a link: of a byte on the line, of a byte in the far buffer, or of a
/// packet.
inline BytePrice price(const LinkDirection& link, CreditType type, PacedBy by) {
  if (by == PacedBy::line) return BytePrice(link.rate);
  const Room room = link.room(type);
  return BytePrice(link.round_trip().fs(), by == PacedBy::buffer ? room.bytes : room.packets);
}

/// One stream with its own price.
class ByteClock {
 public:
  ByteClock() = default;
  ByteClock(std::uint64_t fs, std::uint64_t bytes) : price_(fs, bytes) {}
  explicit ByteClock(Rate rate) : price_(rate) {}
  explicit ByteClock(const BytePrice& price) : price_(price) {}

  Time advance(Bytes bytes) { return price_.advance(bytes, carry_); }
  /// A gap in the stream: the remainder is dropped.
  void reset() { carry_ = 0; }
  Time time_for(Bytes bytes) { return price_.time_for(bytes); }

 private:
  BytePrice price_;
  std::uint64_t carry_ = 0;  ///< in fractions of a femtosecond; the denominator is that of the price
};

}  // namespace railyard::transport
