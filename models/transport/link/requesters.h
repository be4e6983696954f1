// The requesters of an output that wait for one of its virtual channels, and the choice of the next requester.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/units.h"

namespace railyard::transport {

/// A set of requester numbers with round robin choice, fair in wire bytes. In its turn, a requester can send as many
/// bytes as the largest train so far; bytes that smaller trains leave are kept for its next turn (deficit round robin).
/// Hardware takes turns per packet; turns per train would share a port in proportion to train sizes. If all trains are
/// equal, the choice is the first waiting requester after the last one.
class RequesterSet {
 public:
  bool empty() const { return count_ == 0; }
  std::uint32_t size() const { return count_; }
  /// @param goes_on  the requester was just served and has more to send: it keeps the rest of its turn
  void insert(std::uint32_t requester, bool goes_on = false) {
    if (count_++ == 0) {
      lone_ = requester;
    } else {
      if (lone_ != kNobody) word(lone_ / 64) |= bit(lone_);
      lone_ = kNobody;
      word(requester / 64) |= bit(requester);
    }
    if (!goes_on && crowd_ != nullptr && requester < crowd_->left.size()) crowd_->left[requester] = 0;
  }
  void erase(std::uint32_t requester) {
    --count_;
    if (lone_ == kNobody) word(requester / 64) &= ~bit(requester);
    lone_ = count_ == 0 ? kNobody : lone_;
  }
  /// The requester whose turn it is. @pre not empty; @param wire_bytes_of  the front train of a waiting requester
  template <class WireBytesOf>
  std::uint32_t next(WireBytesOf&& wire_bytes_of) const {
    if (lone_ != kNobody) return lone_;
    const bool goes_on = left(last_) != 0 && waits(last_) && left(last_) >= wire_bytes_of(last_);
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
      std::vector<Bytes>& all = crowd().left;
      if (requester >= all.size()) all.resize(requester + 1, 0);
      Bytes& left = all[requester];
      if (requester != last_ || left < wire_bytes) left += turn_;
      left -= wire_bytes;
    }
    last_ = requester;
  }
  std::uint32_t last() const { return last_; }
  /// All waiting requesters, ordered by number.
  std::vector<std::uint32_t> all() const {
    if (lone_ != kNobody) return {lone_};
    std::vector<std::uint32_t> found;
    for (std::uint32_t requester = 0; found.size() < count_; ++requester)
      if (waits(requester)) found.push_back(requester);
    return found;
  }
  /// Resets the turns, as if no requester had ever been served.
  void forget() {
    last_ = kNobody;
    turn_ = 0;
    unequal_ = false;
    if (crowd_ != nullptr) crowd_->left.clear();
  }

 private:
  /// Extra data of a set with many requesters, or with trains of different size.
  struct Crowd {
    std::vector<std::uint64_t> words;  ///< requesters from 64 on, 64 to a word
    std::vector<Bytes> left;           ///< rest of the turn, by requester
  };
  Crowd& crowd() {
    if (crowd_ == nullptr) crowd_ = std::make_unique<Crowd>();
    return *crowd_;
  }
  Bytes left(std::uint32_t requester) const {
    return crowd_ != nullptr && requester < crowd_->left.size() ? crowd_->left[requester] : 0;
  }
  // Bits of waiting requesters, used if more than one waits or has waited since the set was last empty.
  bool waits(std::uint32_t requester) const {
    const std::size_t n = requester / 64;
    const std::uint64_t w = n == 0 ? first_ : crowd_ != nullptr && n <= crowd_->words.size() ? crowd_->words[n - 1] : 0;
    return (w & bit(requester)) != 0;
  }
  std::uint32_t after_last() const {
    const std::uint32_t from = last_ + 1;  // 0 after kNobody
    if (from < 64) {
      const std::uint64_t ahead = first_ & (~0ull << from);
      if (ahead != 0) return number(0, ahead);
      return crowd_ == nullptr || crowd_->words.empty() ? number(0, first_) : next_in_words(0, ~0ull);
    }
    return next_in_words(from / 64 - 1, ~0ull << (from % 64));
  }
  static std::uint64_t bit(std::uint32_t requester) { return 1ull << (requester % 64); }
  static std::uint32_t number(std::size_t word, std::uint64_t bits) {
    return static_cast<std::uint32_t>(word * 64 + static_cast<unsigned>(__builtin_ctzll(bits)));
  }
  std::uint64_t& word(std::size_t n) {
    if (n == 0) return first_;
    std::vector<std::uint64_t>& words = crowd().words;
    if (n > words.size()) words.resize(n, 0);
    return words[n - 1];
  }
  /// From words[n], masked by `mask`, to the end and around.
  std::uint32_t next_in_words(std::size_t n, std::uint64_t mask) const {
    if (crowd_ == nullptr) return number(0, first_);
    const std::vector<std::uint64_t>& words = crowd_->words;
    for (; n < words.size(); ++n, mask = ~0ull)
      if ((words[n] & mask) != 0) return number(n + 1, words[n] & mask);
    if (first_ != 0) return number(0, first_);
    for (n = 0; words[n] == 0; ++n) {
    }
    return number(n + 1, words[n]);
  }

  static constexpr std::uint32_t kNobody = 0xffffffffu;
  std::uint32_t count_ = 0;
  std::uint32_t lone_ = kNobody;  ///< the only waiting requester; not stored in the words
  std::uint32_t last_ = kNobody;
  bool unequal_ = false;     ///< trains of different size have occurred
  Bytes turn_ = 0;           ///< wire bytes of one turn: the largest train seen
  std::uint64_t first_ = 0;  ///< requesters 0..63: enough for most ports
  std::unique_ptr<Crowd> crowd_;
};

}  // namespace railyard::transport
