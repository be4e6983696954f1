// Which requesters of an output wait for one of its virtual channels, and whose turn it is.
#pragma once

#include <cstdint>
#include <vector>

#include "base/units.h"

namespace railyard::transport {

/// A set of requester numbers with round robin choice, fair in wire bytes: whose turn it is may send as much as the largest
/// train seen, and what a smaller one leaves of that is kept for its next turn (deficit round robin). Hardware takes turns
/// packet by packet; trains of unequal size taken one by one would share a port in proportion to their size. While all trains
/// are alike it is the first waiting requester after the one served last.
class RequesterSet {
 public:
  bool empty() const { return count_ == 0; }
  std::uint32_t size() const { return count_; }
  /// @param goes_on  it was served just now and has more: it keeps what it has left of its turn
  void insert(std::uint32_t requester, bool goes_on = false) {
    word(requester / 64) |= bit(requester);
    ++count_;
    if (!goes_on && requester < left_.size()) left_[requester] = 0;
  }
  void erase(std::uint32_t requester) {
    word(requester / 64) &= ~bit(requester);
    --count_;
  }
  /// Whose turn it is. @pre not empty; @param wire_bytes_of  the front train of a waiting requester
  template <class WireBytesOf>
  std::uint32_t next(WireBytesOf&& wire_bytes_of) const {
    const bool goes_on = last_ < left_.size() && left_[last_] != 0 && waits(last_) && left_[last_] >= wire_bytes_of(last_);
    return goes_on ? last_ : after_last();
  }
  /// @pre the requester was chosen by next()
  void served(std::uint32_t requester, Bytes wire_bytes) {
    if (wire_bytes > turn_) {
      unequal_ = turn_ != 0;
      turn_ = wire_bytes;
    } else if (wire_bytes < turn_) {
      unequal_ = true;
    }
    if (unequal_) {
      if (requester >= left_.size()) left_.resize(requester + 1, 0);
      Bytes& left = left_[requester];
      if (requester != last_ || left < wire_bytes) left += turn_;
      left -= wire_bytes;
    }
    last_ = requester;
  }
  std::uint32_t last() const { return last_; }
  /// As if nothing had ever been served.
  void forget() {
    last_ = kNobody;
    turn_ = 0;
    unequal_ = false;
    left_.clear();
  }

 private:
  bool waits(std::uint32_t requester) const {
    const std::uint64_t w = requester < 64 ? first_ : more_.size() >= requester / 64 ? more_[requester / 64 - 1] : 0;
    return (w & bit(requester)) != 0;
  }
  std::uint32_t after_last() const {
    const std::uint32_t from = last_ + 1;  // 0 after kNobody
    if (from < 64) {
      const std::uint64_t ahead = first_ & (~0ull << from);
      if (ahead != 0) return number(0, ahead);
      return more_.empty() ? number(0, first_) : next_in_more(0, ~0ull);
    }
    return next_in_more(from / 64 - 1, ~0ull << (from % 64));
  }
  static std::uint64_t bit(std::uint32_t requester) { return 1ull << (requester % 64); }
  static std::uint32_t number(std::size_t word, std::uint64_t bits) {
    return static_cast<std::uint32_t>(word * 64 + static_cast<unsigned>(__builtin_ctzll(bits)));
  }
  std::uint64_t& word(std::size_t n) {
    if (n == 0) return first_;
    if (n > more_.size()) more_.resize(n, 0);
    return more_[n - 1];
  }
  /// From more_[n], of which only the bits of `mask`, to the end and around.
  std::uint32_t next_in_more(std::size_t n, std::uint64_t mask) const {
    for (; n < more_.size(); ++n, mask = ~0ull)
      if ((more_[n] & mask) != 0) return number(n + 1, more_[n] & mask);
    if (first_ != 0) return number(0, first_);
    for (n = 0; more_[n] == 0; ++n) {}
    return number(n + 1, more_[n]);
  }

  static constexpr std::uint32_t kNobody = 0xffffffffu;
  std::uint64_t first_ = 0;          ///< requesters 0..63: all that most ports have
  std::vector<std::uint64_t> more_;  ///< the others, 64 to a word
  std::uint32_t count_ = 0;
  std::uint32_t last_ = kNobody;
  Bytes turn_ = 0;                   ///< wire bytes of one turn: the largest train seen
  bool unequal_ = false;             ///< trains of different size have been seen
  std::vector<Bytes> left_;          ///< of their turn, by requester
};

}  // namespace railyard::transport
