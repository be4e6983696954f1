// Which requesters of an output wait for one of its virtual channels, and whose turn it is.
#pragma once

#include <cstdint>
#include <vector>

namespace railyard::transport {

/// A set of requester numbers with round robin choice: the first waiting one after the one served last.
class RequesterSet {
 public:
  bool empty() const { return count_ == 0; }
  std::uint32_t size() const { return count_; }
  void insert(std::uint32_t requester) {
    word(requester / 64) |= bit(requester);
    ++count_;
  }
  void erase(std::uint32_t requester) {
    word(requester / 64) &= ~bit(requester);
    --count_;
  }
  /// Whose turn it is. @pre not empty
  std::uint32_t next() const {
    const std::uint32_t from = last_ + 1;  // 0 after kNobody
    if (from < 64) {
      const std::uint64_t ahead = first_ & (~0ull << from);
      if (ahead != 0) return number(0, ahead);
      return more_.empty() ? number(0, first_) : next_in_more(0, ~0ull);
    }
    return next_in_more(from / 64 - 1, ~0ull << (from % 64));
  }
  void served(std::uint32_t requester) { last_ = requester; }
  void forget_turn() { last_ = kNobody; }

 private:
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
};

}  // namespace railyard::transport
