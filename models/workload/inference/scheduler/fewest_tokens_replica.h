// The replica with the fewest tokens of prompts, among those that have less than an even share of the requests: the new one included,
// rounded up, and at least as many as the fullest one has. Of equals, the one with the fewest requests.
#pragma once

#include <algorithm>
#include <tuple>

#include "base/units.h"
#include "workload/inference/scheduler/replica_choice.h"

namespace railyard::workload::inference {

class FewestTokensReplica : public ReplicaChoice {
 public:
  std::uint32_t choose(const std::vector<ReplicaLoad>& loads, std::uint32_t) override {
    std::uint32_t all = 1, most = 0;
    for (const ReplicaLoad& load : loads) {
      all += load.requests;
      most = std::max(most, load.requests);
    }
    const auto share = std::max(most, static_cast<std::uint32_t>(ceil_div(all, loads.size())));
    const auto rank = [&](const ReplicaLoad& load) {
      return std::make_tuple(load.requests >= share, load.prompt_tokens, load.requests);
    };
    const auto least = std::min_element(loads.begin(), loads.end(),
                                        [&](const ReplicaLoad& a, const ReplicaLoad& b) { return rank(a) < rank(b); });
    return static_cast<std::uint32_t>(least - loads.begin());
  }
};

}  // namespace railyard::workload::inference
