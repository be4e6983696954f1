#include "sc_main/kinds/serving_load.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace railyard {

ServedWork& ServedWork::operator+=(const ServedWork& more) {
  requests += more.requests;
  prompt_tokens += more.prompt_tokens;
  output_tokens += more.output_tokens;
  return *this;
}

void WorkBins::add(Time when, const ServedWork& work) {
  while (when.fs() / width_.fs() >= kBins) {
    width_ = width_ * 2;
    for (std::size_t i = 0; i < bins_.size(); ++i) {
      const ServedWork bin = bins_[i];
      if (i % 2 == 0) bins_[i / 2] = {};
      bins_[i / 2] += bin;
    }
    bins_.resize(ceil_div(bins_.size(), 2));
  }
  const std::size_t place = when.fs() / width_.fs();
  if (place >= bins_.size()) bins_.resize(place + 1);
  bins_[place] += work;
}

WorkBins::Span WorkBins::between(Time from, Time to) const {
  const auto nearest = [&](Time at) { return (at.fs() + width_.fs() / 2) / width_.fs(); };
  Span span;
  for (std::uint64_t i = nearest(from); i < nearest(to); ++i) {
    span.seconds += width_.seconds();
    if (i < bins_.size()) span.work += bins_[i];
  }
  return span;
}

std::optional<LoadGrowth> load_growth(const std::vector<RequestSpan>& spans) {
  constexpr std::size_t kBatches = 10;
  constexpr double kStudent = 2.821;  // one-sided, 1 %, of kBatches - 1 degrees of freedom
  std::vector<Time> arrivals, ends;
  for (const auto& [arrival, end] : spans) {
    arrivals.push_back(arrival);
    ends.push_back(end);
  }
  std::sort(arrivals.begin(), arrivals.end());
  std::sort(ends.begin(), ends.end());
  if (arrivals.empty() || arrivals.front() == arrivals.back()) return std::nullopt;

  const Time last = arrivals.back(), half = share(last - arrivals.front(), 1, 2), middle = last - half;
  const auto until = [](const std::vector<Time>& sorted, Time t) {
    return static_cast<double>(std::upper_bound(sorted.begin(), sorted.end(), t) - sorted.begin());
  };
  const auto in_system = [&](std::size_t batch) {
    const Time t = middle + share(half, batch, kBatches);
    return until(arrivals, t) - until(ends, t);
  };
  std::array<double, kBatches> increments{};
  for (std::size_t i = 0; i < kBatches; ++i) increments[i] = in_system(i + 1) - in_system(i);
  const double mean = (in_system(kBatches) - in_system(0)) / kBatches;
  double squares = 0;
  for (const double increment : increments) squares += (increment - mean) * (increment - mean);
  const double error = std::sqrt(squares / (kBatches - 1) / kBatches);
  const double batches_per_s = kBatches / half.seconds();
  return LoadGrowth{mean * batches_per_s, error * batches_per_s, mean > 0 && mean > kStudent * error};
}

}  // namespace railyard
