// For answers: the instance to which the KV of the prompt would come soonest, over links as loaded; of equal ones, that with the
// fewest requests.
#pragma once

#include <utility>

#include "workload/inference/routing/router_view.h"

namespace railyard::workload::inference {

class LinkAwarePolicy : public RoutingPolicy {
 public:
  explicit LinkAwarePolicy(KvEstimate estimate) : estimate_(std::move(estimate)) {}

  /// @pre asked.from
  std::uint32_t choose(Asked& asked, const Candidates& candidates, RouterView& view,
                       std::vector<double>& scores) override {
    std::uint32_t best = candidates.front();
    Time soonest = Time::max();
    for (const std::uint32_t id : candidates) {
      const Time time = estimate_(asked, *asked.from, id);
      scores.push_back(time.seconds());
      if (time < soonest || (time == soonest && view.requests(id) < view.requests(best))) best = id;
      soonest = sooner(soonest, time);
    }
    return best;
  }

 private:
  KvEstimate estimate_;
};

}  // namespace railyard::workload::inference
