// Distributions of numbers of tokens. Plain C++; no SystemC.
#pragma once

#include <cstdint>
#include <variant>

#include "base/random.h"

namespace railyard::workload::inference {

/// Each integer from min to max is equally likely.
struct UniformTokens {
  std::uint32_t min = 1;
  std::uint32_t max = 1;
};

/// Lognormal, rounded to an integer from 1 to `most`.
struct LognormalTokens {
  double mean = 1;      ///< of the distribution, not of its logarithm
  double cv_ratio = 1;  ///< standard deviation / mean
  std::uint32_t most = 1u << 24;
};

using TokensDistribution = std::variant<UniformTokens, LognormalTokens>;

std::uint32_t draw_tokens(const TokensDistribution& tokens, Random& random);

}  // namespace railyard::workload::inference
