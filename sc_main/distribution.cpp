#include "sc_main/distribution.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace railyard {

namespace {

constexpr double kFactor = 1.001, kLeastSeconds = 1e-9, kMostSeconds = 1e5;

std::size_t class_of(double seconds) {
  const double clamped = std::clamp(seconds, kLeastSeconds, kMostSeconds);
  return static_cast<std::size_t>(std::log(clamped / kLeastSeconds) / std::log(kFactor));
}

}  // namespace

double mean(const std::vector<double>& values) {
  if (values.empty()) return 0;
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double percentile(std::vector<double> values, double ratio) {
  if (values.empty()) return 0;
  const auto rank = static_cast<std::size_t>(std::ceil(ratio * static_cast<double>(values.size())));
  const auto nth = values.begin() + static_cast<std::ptrdiff_t>(std::max<std::size_t>(rank, 1) - 1);
  std::nth_element(values.begin(), nth, values.end());
  return *nth;
}

TimeHistogram::TimeHistogram() : classes_(class_of(kMostSeconds) + 1) {}

void TimeHistogram::add(double seconds) {
  ++classes_[class_of(seconds)];
  ++count_;
  sum_ += seconds;
}

double TimeHistogram::percentile(double ratio) const {
  if (count_ == 0) return 0;
  const auto rank =
      std::max<std::uint64_t>(1, static_cast<std::uint64_t>(std::ceil(ratio * static_cast<double>(count_))));
  std::uint64_t below = 0;
  std::size_t i = 0;
  while (below + classes_[i] < rank) below += classes_[i++];
  return kLeastSeconds * std::pow(kFactor, static_cast<double>(i) + 0.5);
}

}  // namespace railyard
