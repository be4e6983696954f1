// A queue of future items, earliest first; at the same instant, first posted first.
//
// The base is an instant that is not after the present; it only increases. An item is stored in a place. The place is
// given by the highest 8-bit digit in which the item's time differs from the base, and by the value of that digit. So a
// place is a span of time, and places with a lower digit, then with a lower value, come earlier. When the span of the
// first place begins, the base moves there, and the items of the place are sorted. If there are many items or the span
// is long, they move to places of lower digits instead. Most items move only once, because they are posted shortly
// before their time and lie far apart in femtoseconds. Items of one instant are always in one place, in the order of
// posting.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/units.h"

namespace railyard::probe {

/// @tparam T  has a member `Time when`, and takes it as the first argument of its constructor
template <class T>
class Upcoming {
 public:
  /// @pre `when` is not before any earlier argument of due()
  template <class... What>
  void post(Time when, What... what) {
    Place& place = is_near(when) ? near_ : place_of(when);
    place.emplace_back(when, what...);  // constructed in place: a copy would wait for the stores just made
    if (&place != &near_) return;
    sort_last(next_ + near_left_, next_);
    ++near_left_;
  }

  /// The earliest item due by `now`, or nullptr. It stays valid until pop() or post().
  const T* due(Time now) {
    while (near_left_ == 0) {
      if (filled_digits_ == 0 || now < first_) return nullptr;
      bring_up();
    }
    return near_[next_].when <= now ? &near_[next_] : nullptr;
  }
  void pop() {
    ++next_;
    if (--near_left_ > 0) return;
    near_.clear();
    next_ = 0;
  }

 private:
  static constexpr unsigned kDigits = 8, kValues = 256;
  static constexpr unsigned shift_of(unsigned digit) { return 8 * digit + 2; }
  // Places of this digit or a lower one (spans of at most 67 ns) are sorted if they hold at most kNearMost items.
  static constexpr unsigned kNear = 3;
  static constexpr std::size_t kNearMost = 64;
  using Place = std::vector<T>;

  bool is_near(Time when) const { return (when.fs() ^ base_) >> near_bits_ == 0; }

  /// Moves item `last` of near_ to its sorted position, at `first` or later.
  void sort_last(std::size_t last, std::size_t first) {
    for (std::size_t i = last; i > first && near_[i].when < near_[i - 1].when; --i) std::swap(near_[i], near_[i - 1]);
  }

  /// @pre not near
  Place& place_of(Time when) {
    const unsigned digit = (63 - static_cast<unsigned>(__builtin_clzll(when.fs() ^ base_)) - shift_of(0)) / 8;
    const auto value = static_cast<unsigned>(when.fs() >> shift_of(digit)) % kValues;
    filled_digits_ |= 1u << digit;
    filled_words_[digit] |= 1u << value / 64;
    filled_[digit][value / 64] |= std::uint64_t{1} << value % 64;
    first_ = sooner(first_, start_of(digit, when.fs()));
    return waiting_[digit][value];
  }
  static Time start_of(unsigned digit, std::uint64_t fs) { return Time::fs(fs >> shift_of(digit) << shift_of(digit)); }

  struct Where {
    unsigned digit, value;
  };
  /// @pre a place is not empty
  Where first_place() const {
    const auto digit = static_cast<unsigned>(__builtin_ctz(filled_digits_));
    const auto word = static_cast<unsigned>(__builtin_ctz(filled_words_[digit]));
    return {digit, 64 * word + static_cast<unsigned>(__builtin_ctzll(filled_[digit][word]))};
  }

  /// Moves the first place, or a part of it, to near_. @pre a place is not empty
  void bring_up() {
    const auto [digit, value] = first_place();
    Place& place = waiting_[digit][value];
    base_ = first_.fs();
    emptied(digit, value);
    if (digit <= kNear && place.size() <= kNearMost) {
      near_bits_ = shift_of(digit);
      near_.swap(place);
      near_left_ = near_.size();
      for (std::size_t i = 1; i < near_left_; ++i) sort_last(i, 0);
      return;
    }
    near_bits_ = shift_of(0);
    for (const T& item : place) {
      Place& nearer = is_near(item.when) ? near_ : place_of(item.when);
      nearer.push_back(item);
      if (&nearer == &near_) sort_last(near_left_++, 0);
    }
    place.clear();
  }

  void emptied(unsigned digit, unsigned value) {
    filled_[digit][value / 64] &= ~(std::uint64_t{1} << value % 64);
    if (filled_[digit][value / 64] == 0) filled_words_[digit] &= ~(1u << value / 64);
    if (filled_words_[digit] == 0) filled_digits_ &= ~(1u << digit);
    first_ = Time::max();
    if (filled_digits_ == 0) return;
    const Where first = first_place();
    first_ = start_of(first.digit, waiting_[first.digit][first.value].front().when.fs());
  }

  std::uint64_t base_ = 0;
  unsigned near_bits_ = shift_of(0);  ///< times that differ from the base only in these low bits are near
  std::vector<T> near_;               ///< sorted from next_ on
  std::size_t next_ = 0,
              near_left_ = 0;  ///< a separate count: the size of the vector was just stored, and a load would wait
  Time first_ = Time::max();   ///< begin of the span of the first place
  std::array<std::array<Place, kValues>, kDigits> waiting_;
  // Which places are not empty: a bit for each, for each 64 of them, and for each digit.
  std::array<std::array<std::uint64_t, kValues / 64>, kDigits> filled_{};
  std::array<unsigned, kDigits> filled_words_{};
  unsigned filled_digits_ = 0;
};

}  // namespace railyard::probe
