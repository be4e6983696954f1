// Which drafts of speculative decoding are right. Plain C++.
//
// A draft is right or wrong by a draw that depends on the seed, the request and the place of the token in the answer alone.
// So the same tokens are right in any batch, at any load, and on any instance; and with other numbers of drafts, as far as
// their probabilities are the same.
#pragma once

#include <cstdint>
#include <vector>

#include "workload/inference/scheduler/scheduler_spec.h"

namespace railyard::workload::inference {

class Acceptance {
 public:
  explicit Acceptance(const DraftSpec& spec) : seed_(spec.seed), rates_(spec.acceptance) {}

  /// How many of a decode's first drafts are right: those before the first wrong one.
  /// @param token  number of the first draft among the tokens of the answer. @pre at most DraftSpec::tokens drafts
  std::uint32_t right(std::uint32_t request, std::uint64_t token, std::uint32_t drafts) const;

 private:
  std::uint64_t seed_;
  std::vector<double> rates_;
};

// Values of DraftSpec::acceptance.
/// Each draft is right with this probability if all before it are.
std::vector<double> acceptance_of_ratio(double ratio, std::uint32_t tokens);
/// @param ratios  by position: how likely this draft and all before it are right, as engines report it. @pre never increasing
std::vector<double> acceptance_of_positions(const std::vector<double>& ratios);
/// A step gives `length` tokens on average, and no step differs from that by one or more: vLLM's synthetic acceptance length
/// (config/speculative.py, _acceptance_length_to_rates). @pre 1 <= length <= tokens + 1
std::vector<double> acceptance_of_length(double length, std::uint32_t tokens);
/// Mean number of tokens that a decode with all of its drafts gives.
double tokens_per_step(const std::vector<double>& acceptance);

}  // namespace railyard::workload::inference
