#include "workload/inference/requests/token_lengths.h"

#include <algorithm>
#include <cmath>

namespace railyard::workload::inference {

namespace {

std::uint32_t draw(const UniformTokens& tokens, Random& random) {
  return tokens.min + static_cast<std::uint32_t>(random.below(std::uint64_t{tokens.max} - tokens.min + 1));
}

std::uint32_t draw(const LognormalTokens& tokens, Random& random) {
  const double variance = std::log(1 + tokens.cv_ratio * tokens.cv_ratio);  // of the logarithm
  const double value = tokens.mean * std::exp(std::sqrt(variance) * random.normal() - variance / 2);
  return static_cast<std::uint32_t>(std::clamp(std::round(value), 1.0, static_cast<double>(tokens.most)));
}

}  // namespace

std::uint32_t draw_tokens(const TokensDistribution& tokens, Random& random) {
  return std::visit([&](const auto& one) { return draw(one, random); }, tokens);
}

}  // namespace railyard::workload::inference
