#include "transformer/routing.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/random.h"

namespace railyard::transformer {

std::vector<double> expert_shares(const Routing& routing, std::uint32_t experts, std::uint32_t experts_per_token,
                                  std::uint32_t layer) {
  std::vector<double> shares(experts), from(experts + 1);  // from[e]: popularity of all experts from e on
  for (std::uint32_t e = experts; e-- > 0;) from[e] = from[e + 1] + std::pow(e + 1, -routing.skew);
  // The most popular experts get the most that an expert can get, the others the rest.
  const double most = 1.0 / experts_per_token;
  double left = 1;
  for (std::uint32_t e = 0; e < experts; ++e) {
    shares[e] = std::min(most, left * std::pow(e + 1, -routing.skew) / from[e]);
    left -= shares[e];
  }
  Random random(routing.seed, layer);
  for (std::uint32_t e = experts; e-- > 1;) std::swap(shares[e], shares[random.below(e + 1)]);
  return shares;
}

std::uint64_t RankLoad::of(std::uint64_t copies) const {
  const double share = static_cast<double>((*shares)[rank]) * static_cast<double>(shares->size()) / kWhole;
  return std::max<std::uint64_t>(1, std::llround(static_cast<double>(copies) * share));
}

std::vector<RankLoad> rank_loads(const std::vector<double>& expert_shares, std::uint32_t ep) {
  const std::size_t each = expert_shares.size() / ep;
  auto shares = std::make_shared<std::vector<std::uint32_t>>();
  std::vector<RankLoad> loads;
  for (std::uint32_t r = 0; r < ep; ++r) {
    const auto first = expert_shares.begin() + static_cast<std::ptrdiff_t>(r * each);
    const double share = std::accumulate(first, first + static_cast<std::ptrdiff_t>(each), 0.0);
    shares->push_back(std::max(1u, static_cast<std::uint32_t>(std::lround(share * RankLoad::kWhole))));
    loads.push_back({shares, r});
  }
  return loads;
}

ExpertRanks expert_ranks(const ModelShape& model, std::uint32_t ranks, const std::optional<Routing>& routing) {
  ExpertRanks result{ranks};
  if (ranks == 1 || !routing) return result;
  double sum = 0;
  std::uint32_t layers = 0;
  for (std::uint32_t l = 0; l < model.layers; ++l) {
    if (!model.routes(model.layer(l))) continue;
    const std::vector<RankLoad> loads =
        rank_loads(expert_shares(*routing, model.experts, model.experts_per_token, l), ranks);
    const std::vector<std::uint32_t>& shares = *loads.front().shares;
    sum += static_cast<double>(*std::max_element(shares.begin(), shares.end())) * ranks / RankLoad::kWhole;
    ++layers;
  }
  if (layers > 0) result.fullest = sum / layers;
  return result;
}

}  // namespace railyard::transformer
