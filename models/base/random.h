// Random numbers that do not depend on the platform. The C++ standard defines the output of its engines, but not of its
// distributions, so the distributions are defined here. Only the last bit of a logarithm may differ between platforms.
#pragma once

#include <cmath>
#include <cstdint>
#include <random>

namespace railyard {

/// splitmix64's finaliser over a running value: as good as a random number that depends on all values so far.
inline std::uint64_t mixed(std::uint64_t seed, std::uint64_t value) {
  std::uint64_t z = seed + 0x9e3779b97f4a7c15ull * (value + 1);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

class Random {
 public:
  /// Different streams of one seed are independent.
  Random(std::uint64_t seed, std::uint32_t stream) {
    std::seed_seq words{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32), stream};
    engine_.seed(words);
  }

  /// Uniform over (0, 1].
  double uniform() { return static_cast<double>((engine_() >> 11) + 1) * 0x1p-53; }

  /// An integer from 0 to n - 1, all equally likely. @pre n > 0
  std::uint64_t below(std::uint64_t n) {
    const std::uint64_t excess = (0 - n) % n;  // 2^64 mod n values would be drawn once too often
    std::uint64_t value = engine_();
    while (value < excess) value = engine_();
    return value % n;
  }

  /// Mean 1.
  double exponential() { return -std::log(uniform()); }

  /// Mean 0, standard deviation 1. Marsaglia's polar method.
  double normal() {
    for (;;) {
      const double x = 2 * uniform() - 1, y = 2 * uniform() - 1;
      const double square = x * x + y * y;
      if (square > 0 && square < 1) return x * std::sqrt(-2 * std::log(square) / square);
    }
  }

  /// Mean `shape`, variance `shape`. Marsaglia and Tsang, "A simple method for generating gamma variables", 2000.
  /// @pre shape > 0
  double gamma(double shape) {
    if (shape < 1) {
      const double larger = gamma(shape + 1);
      return larger * std::pow(uniform(), 1 / shape);
    }
    const double d = shape - 1.0 / 3, c = 1 / std::sqrt(9 * d);
    for (;;) {
      const double x = normal(), root = 1 + c * x;
      if (root <= 0) continue;
      const double v = root * root * root;
      if (std::log(uniform()) < x * x / 2 + d - d * v + d * std::log(v)) return d * v;
    }
  }

 private:
  std::mt19937_64 engine_;
};

}  // namespace railyard
