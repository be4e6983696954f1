// Requests that the router has sent there and that have not ended.
#pragma once

#include "workload/inference/routing/least.h"

namespace railyard::workload::inference {

class LeastRequestsPolicy : public RoutingPolicy {
 public:
  std::uint32_t choose(Asked&, const Candidates& candidates, RouterView& view, std::vector<double>& scores) override {
    for (const std::uint32_t id : candidates) scores.push_back(view.requests(id));
    return least(candidates, scores);
  }
};

}  // namespace railyard::workload::inference
