// Two at random; of these the one with fewer requests (sgl-project/sglang, sgl-model-gateway/src/policies/power_of_two.rs).
#pragma once

#include "base/random.h"
#include "workload/inference/routing/least.h"

namespace railyard::workload::inference {

class PowerOfTwoPolicy : public RoutingPolicy {
 public:
  explicit PowerOfTwoPolicy(Random random) : random_(random) {}
  std::uint32_t choose(Asked&, const Candidates& candidates, RouterView& view, std::vector<double>& scores) override {
    for (const std::uint32_t id : candidates) scores.push_back(view.requests(id));
    if (candidates.size() == 1) return candidates.front();
    std::size_t first = random_.below(candidates.size()), second = random_.below(candidates.size() - 1);
    if (second >= first) ++second;
    return candidates[scores[second] < scores[first] ? second : first];
  }

 private:
  Random random_;
};

}  // namespace railyard::workload::inference
