// How many of a rank's tokens reach the other expert-parallel ranks, and their servers, if each token is sent once to each
// (collective/deepep.h). A token goes to k different experts, so a rank with a few of them gets it once.
#pragma once

#include <cstdint>
#include <vector>

#include "collective/spec.h"
#include "transformer/layer_plan.h"

namespace railyard::transformer {

/// Share of the tokens that reach at least one of some experts. For n of E equally popular experts it is
/// 1 - C(E - n, k) / C(E, k). Popular experts count as more of them, in proportion to their share of all copies.
/// @param share  of all copies that go to these experts
double reached_share(double share, std::uint32_t experts, std::uint32_t experts_per_token);

/// A kernel of DeepEP in a layer.
struct TokenLeg {
  Bytes bytes = 0;
  collective::Shares shares;
  collective::TokenExchange tokens;
};

class TokenReach {
 public:
  TokenReach(const ModelShape& model, const LayerSplit& split);

  /// @param tokens  of each rank
  ReceivedTokens received(std::uint64_t tokens) const;
  TokenLeg notify() const;
  /// @param numbers  of 4 bytes that travel with a token: its choices, and their weights
  TokenLeg leg(collective::TokenExchange::Leg leg, std::uint64_t tokens, std::uint32_t numbers) const;

 private:
  const ModelShape& model_;
  const LayerSplit& split_;
  std::vector<double> ranks_, servers_;  ///< share of a rank's tokens that reach each of them
};

}  // namespace railyard::transformer
