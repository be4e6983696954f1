#include "workload/inference/scheduler/acceptance.h"

#include <algorithm>

#include "base/random.h"

namespace railyard::workload::inference {

std::uint32_t Acceptance::right(std::uint32_t request, std::uint64_t token, std::uint32_t drafts) const {
  const std::uint64_t of_request = mixed(mixed(0, seed_), request);
  for (std::uint32_t i = 0; i < drafts; ++i)
    if (static_cast<double>(mixed(of_request, token + i) >> 11) * 0x1p-53 >= rates_[i]) return i;
  return drafts;
}

std::vector<double> acceptance_of_ratio(double ratio, std::uint32_t tokens) {
  return std::vector<double>(tokens, ratio);
}

std::vector<double> acceptance_of_positions(const std::vector<double>& ratios) {
  std::vector<double> rates;
  double before = 1;
  for (const double ratio : ratios) {
    rates.push_back(before > 0 ? ratio / before : 0);
    before = ratio;
  }
  return rates;
}

std::vector<double> acceptance_of_length(double length, std::uint32_t tokens) {
  std::vector<double> rates;
  for (std::uint32_t i = 0; i < tokens; ++i) rates.push_back(std::clamp(length - 1 - i, 0.0, 1.0));
  return rates;
}

double tokens_per_step(const std::vector<double>& acceptance) {
  double sum = 1, all_right = 1;
  for (const double rate : acceptance) sum += all_right *= rate;
  return sum;
}

}  // namespace railyard::workload::inference
