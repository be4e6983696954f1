// All instances are equally likely.
#pragma once

#include "base/random.h"
#include "workload/inference/routing/routing_policy.h"

namespace railyard::workload::inference {

class RandomPolicy : public RoutingPolicy {
 public:
  explicit RandomPolicy(Random random) : random_(random) {}
  std::uint32_t choose(Asked&, const Candidates& candidates, RouterView&, std::vector<double>&) override {
    return candidates[random_.below(candidates.size())];
  }

 private:
  Random random_;
};

}  // namespace railyard::workload::inference
