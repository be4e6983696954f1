#include "transformer/routing.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "base/random.h"

namespace railyard::transformer {

std::vector<double> expert_shares(const Routing& routing, std::uint32_t experts, std::uint32_t experts_per_token,
                                  std::uint32_t layer) {
  if (routing.traced != nullptr) return routing.traced->at(layer);
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

std::uint64_t part_of_copies(std::uint64_t copies, double part) {
  return part == 1 ? copies : static_cast<std::uint64_t>(std::llround(static_cast<double>(copies) * part));
}

std::uint64_t RankLoad::of(std::uint64_t copies) const {
  const double share = static_cast<double>((*shares)[rank]) * static_cast<double>(shares->size()) / kWhole;
  return std::max<std::uint64_t>(1, std::llround(static_cast<double>(copies) * share));
}

std::vector<double> capped_shares(std::vector<double> expert_shares, double factor) {
  const double most = factor / static_cast<double>(expert_shares.size());
  for (double& share : expert_shares) share = std::min(share, most);
  return expert_shares;
}

std::vector<RankLoad> rank_loads(const std::vector<double>& expert_shares, std::uint32_t ep) {
  const std::size_t each = expert_shares.size() / ep;
  auto shares = std::make_shared<std::vector<std::uint32_t>>();
  std::vector<RankLoad> loads;
  const double sum = std::accumulate(expert_shares.begin(), expert_shares.end(), 0.0);
  const double kept = sum < 1 - 1e-9 ? sum : 1;  // else shares are of all copies, but for rounding
  for (std::uint32_t r = 0; r < ep; ++r) {
    const auto first = expert_shares.begin() + static_cast<std::ptrdiff_t>(r * each);
    const double share = std::accumulate(first, first + static_cast<std::ptrdiff_t>(each), 0.0);
    shares->push_back(std::max(1u, static_cast<std::uint32_t>(std::lround(share * RankLoad::kWhole))));
    loads.push_back({shares, r, kept});
  }
  return loads;
}

std::vector<double> balanced_shares(const std::vector<double>& expert_shares, std::uint32_t copies,
                                    std::uint32_t ranks) {
  const std::vector<double>& loads = expert_shares;
  std::vector<std::uint32_t> places(loads.size(), 1);
  const auto of_place = [&](std::size_t e) { return loads[e] / places[e]; };
  for (std::uint32_t c = 0; c < copies; ++c) {
    std::size_t most = 0;
    for (std::size_t e = 1; e < loads.size(); ++e)
      if (of_place(e) > of_place(most)) most = e;
    ++places[most];
  }
  std::vector<double> all;
  for (std::size_t e = 0; e < loads.size(); ++e) all.insert(all.end(), places[e], of_place(e));
  std::sort(all.begin(), all.end(), std::greater<>());
  const std::size_t room = all.size() / ranks;
  std::vector<double> shares(ranks);
  std::vector<std::size_t> taken(ranks);
  for (const double load : all) {
    std::size_t least = ranks;
    for (std::size_t r = 0; r < ranks; ++r)
      if (taken[r] < room && (least == ranks || shares[r] < shares[least])) least = r;
    shares[least] += load;
    ++taken[least];
  }
  return shares;
}

ExpertRanks expert_ranks(const ModelShape& model, std::uint32_t ranks, const std::optional<Routing>& routing,
                         const std::optional<std::uint32_t>& redundant) {
  ExpertRanks result{ranks};
  result.redundant = redundant.value_or(0);
  if (ranks == 1 || (!routing && !redundant)) return result;
  double sum = 0;
  std::uint32_t layers = 0;
  for (std::uint32_t l = 0; l < model.layers; ++l) {
    if (!model.routes(model.layer(l))) continue;
    ++layers;
    const std::vector<double> of_experts =
        expert_shares(routing.value_or(Routing{}), model.experts, model.experts_per_token, l);
    if (redundant) {
      const std::vector<double> shares = balanced_shares(of_experts, *redundant, ranks);
      sum += *std::max_element(shares.begin(), shares.end()) * ranks;
      continue;
    }
    const std::vector<RankLoad> loads = rank_loads(of_experts, ranks);
    const std::vector<std::uint32_t>& shares = *loads.front().shares;
    sum += static_cast<double>(*std::max_element(shares.begin(), shares.end())) * ranks / RankLoad::kWhole;
  }
  if (layers > 0) result.fullest = sum / layers;
  return result;
}

}  // namespace railyard::transformer
