// Values whose mean and percentiles a summary shows.
#pragma once

#include <cstdint>
#include <vector>

namespace railyard {

/// 0 without values.
double mean(const std::vector<double>& values);
/// Nearest rank: the smallest value such that at least `ratio` of all values do not exceed it; 0 without values.
double percentile(std::vector<double> values, double ratio);

/// Keeps all values.
class Distribution {
 public:
  void add(double value) { values_.push_back(value); }
  std::size_t count() const { return values_.size(); }
  double mean() const { return railyard::mean(values_); }
  double percentile(double ratio) const { return railyard::percentile(values_, ratio); }

 private:
  std::vector<double> values_;
};

/// For values too many to keep: counts in classes whose bounds differ by a factor of 1.001. A percentile is the middle
/// of its class, at most 0.05 % from the value. The mean is exact.
class TimeHistogram {
 public:
  TimeHistogram();
  void add(double seconds);
  double mean() const { return count_ > 0 ? sum_ / static_cast<double>(count_) : 0; }
  double percentile(double ratio) const;

 private:
  std::vector<std::uint64_t> classes_;
  std::uint64_t count_ = 0;
  double sum_ = 0;
};

}  // namespace railyard
