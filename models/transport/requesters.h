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
    const std::size_t word = requester / 64;
    if (word >= words_.size()) words_.resize(word + 1, 0);
    words_[word] |= 1ull << (requester % 64);
    ++count_;
  }
  void erase(std::uint32_t requester) {
    words_[requester / 64] &= ~(1ull << (requester % 64));
    --count_;
  }
  /// Whose turn it is. @pre not empty
  std::uint32_t next() const {
    const std::uint32_t from = last_ + 1;
    std::size_t word = from / 64;
    if (word < words_.size()) {
      const std::uint64_t rest = words_[word] & (~0ull << (from % 64));
      if (rest != 0) return number(word, rest);
      for (++word; word < words_.size(); ++word)
        if (words_[word] != 0) return number(word, words_[word]);
    }
    for (word = 0; words_[word] == 0; ++word) {}
    return number(word, words_[word]);
  }
  void served(std::uint32_t requester) { last_ = requester; }
  void forget_turn() { last_ = kNobody; }

 private:
  static std::uint32_t number(std::size_t word, std::uint64_t bits) {
    return static_cast<std::uint32_t>(word * 64 + static_cast<unsigned>(__builtin_ctzll(bits)));
  }
  std::vector<std::uint64_t> words_;
  std::uint32_t count_ = 0;
  static constexpr std::uint32_t kNobody = 0xffffffffu;  // requester 0 follows it
  std::uint32_t last_ = kNobody;
};

}  // namespace railyard::transport
