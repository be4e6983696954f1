#include "transformer/token_exchange.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>

#include "collective/program.h"
#include "transformer/parameters.h"

namespace railyard::transformer {

namespace {

double sum_of(const std::vector<double>& shares) { return std::accumulate(shares.begin(), shares.end(), 0.0); }

Bytes bytes_of(double tokens, Bytes token_bytes) {
  return static_cast<Bytes>(std::llround(tokens * static_cast<double>(token_bytes)));
}

std::shared_ptr<const std::vector<std::uint32_t>> weights_of(const std::vector<double>& shares) {
  auto weights = std::make_shared<std::vector<std::uint32_t>>();
  for (const double share : shares)
    weights->push_back(std::max(1u, static_cast<std::uint32_t>(std::lround(share * RankLoad::kWhole))));
  return weights;
}

}  // namespace

double reached_share(double share, std::uint32_t experts, std::uint32_t experts_per_token) {
  const double some = share * experts;
  double missed = 1;
  for (std::uint32_t i = 0; i < experts_per_token; ++i) missed *= std::max(0.0, 1 - some / (experts - i));
  return 1 - missed;
}

TokenReach::TokenReach(const ModelShape& model, const LayerSplit& split) : model_(model), split_(split) {
  const std::uint32_t ranks = split.expert_ranks();
  std::vector<double> shares(ranks, 1.0 / ranks);
  for (std::uint32_t r = 0; split.load && r < ranks; ++r)
    shares[r] = static_cast<double>((*split.load->shares)[r]) / RankLoad::kWhole;
  const auto reached = [&](double share) { return reached_share(share, model.experts, model.experts_per_token); };
  for (const double share : shares) ranks_.push_back(reached(share));
  for (std::uint32_t r = 0; r < ranks; r += collective::kDeepEpServerRanks) {
    const auto begin = shares.begin() + r;
    servers_.push_back(
        reached(std::accumulate(begin, begin + std::min(ranks - r, collective::kDeepEpServerRanks), 0.0)));
  }
}

ReceivedTokens TokenReach::received(std::uint64_t tokens) const {
  const std::uint32_t ranks = split_.expert_ranks(), rank = split_.load ? split_.load->rank : 0;
  const std::uint64_t even = tokens * model_.experts_per_token;
  const auto all = static_cast<double>(tokens) * ranks;
  return {static_cast<std::uint64_t>(std::llround(all * ranks_[rank])), split_.load ? split_.load->of(even) : even,
          model_.experts / ranks};
}

TokenLeg TokenReach::notify() const {
  TokenLeg found;
  found.bytes = split_.expert_ranks() * collective::kFlagBytes;
  found.tokens.leg = collective::TokenExchange::Leg::notify;
  found.tokens.notifies = true;
  return found;
}

TokenLeg TokenReach::leg(collective::TokenExchange::Leg leg, std::uint64_t tokens, std::uint32_t numbers) const {
  constexpr Bytes kSource = 8, kNumber = 4, kAligned = 16;  // internode.cu, get_num_bytes_per_token()
  const Bytes token = ceil_div(hidden_bytes(model_, 1) + kSource + numbers * kNumber, kAligned) * kAligned;
  TokenLeg found;
  found.bytes = bytes_of(static_cast<double>(tokens) * sum_of(ranks_), token);
  found.tokens.leg = leg;
  found.tokens.token_bytes = token;
  found.tokens.network_bytes = bytes_of(static_cast<double>(tokens) * sum_of(servers_), token);
  if (split_.load) {
    found.shares = {weights_of(ranks_), leg == collective::TokenExchange::Leg::combine};
    found.tokens.of_servers = weights_of(servers_);
  }
  return found;
}

}  // namespace railyard::transformer
