// Measured seconds as a function of N quantities, piecewise linear in each one.
//
// A table is nested: for each measured value of the first quantity, a table over the others. So rows need not form a
// full grid: the inner tables may have different lengths. Above the last point, the line through the last two points
// continues, but never falls below the last point. Below the first point, its time is used. Both cases are recorded in a
// ProfileUse.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <type_traits>
#include <vector>

namespace railyard::transformer {

/// Lookups outside the measured range of a profile, by table and quantity ("qkv_proj tokens").
struct ProfileUse {
  struct Outside {
    std::uint64_t times = 0;
    double least = 0, most = 0;  ///< range of these lookups
    double first = 0, last = 0;  ///< measured range
  };
  std::map<std::string, Outside> outside;
  void note(const std::string& what, double asked, double first, double last);
};

/// The measured range of a quantity, if a lookup has left it.
struct ProfileRange {
  bool was_left = false;
  double first = 0, last = 0;
};

template <std::size_t N>
class ProfileTable {
 public:
  using Point = std::array<double, N>;
  using Names = std::array<std::string, N>;

  /// @return false if there is already a time for this point
  bool add(const Point& point, double seconds) { return add(point.data(), seconds); }
  bool empty() const { return values_.empty(); }
  /// @param names  names of the quantities in `use`
  /// @pre not empty
  double at(const Point& point, const Names& names, ProfileUse& use) const {
    std::array<ProfileRange, N> outside{};
    const double seconds = at(point.data(), outside.data());
    for (std::size_t i = 0; i < N; ++i)
      if (outside[i].was_left) use.note(names[i], point[i], outside[i].first, outside[i].last);
    return seconds;
  }

 private:
  template <std::size_t>
  friend class ProfileTable;
  using Inner = std::conditional_t<N == 1, double, ProfileTable<N - 1>>;

  bool add(const double* point, double seconds) {
    const auto place = std::lower_bound(values_.begin(), values_.end(), *point);
    const auto inner = inner_.begin() + (place - values_.begin());
    const bool is_new = place == values_.end() || *place != *point;
    if constexpr (N == 1) {
      if (is_new) inner_.insert(inner, seconds);
      if (is_new) values_.insert(place, *point);
      return is_new;
    } else {
      const auto table = is_new ? inner_.emplace(inner) : inner;
      if (is_new) values_.insert(place, *point);
      return table->add(point + 1, seconds);
    }
  }

  double at(const double* point, ProfileRange* outside) const {
    const double x = *point;
    const auto value = [&](std::size_t i) {
      if constexpr (N == 1)
        return inner_[i];
      else
        return inner_[i].at(point + 1, outside + 1);
    };
    const std::size_t size = values_.size();
    const auto above = static_cast<std::size_t>(std::lower_bound(values_.begin(), values_.end(), x) - values_.begin());
    if (above < size && values_[above] == x) return value(above);
    if (above == 0 || above == size) *outside = {true, values_.front(), values_.back()};
    if (above == 0 || size == 1) return value(0);
    const std::size_t second = std::min(above, size - 1), first = second - 1;
    const double y0 = value(first), y1 = value(second);
    const double y = y0 + (y1 - y0) * (x - values_[first]) / (values_[second] - values_[first]);
    return above == size ? std::max(y1, y) : y;
  }

  std::vector<double> values_;  ///< of the first quantity, in order
  std::vector<Inner> inner_;    ///< seconds, or a table over the other quantities, for each value
};

}  // namespace railyard::transformer
