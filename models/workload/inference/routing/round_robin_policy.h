// The next instance after the last one, among those that can hold the request.
#pragma once

#include <algorithm>

#include "workload/inference/routing/routing_policy.h"

namespace railyard::workload::inference {

class RoundRobinPolicy : public RoutingPolicy {
 public:
  std::uint32_t choose(Asked&, const Candidates& candidates, RouterView&, std::vector<double>&) override {
    const auto next = std::lower_bound(candidates.begin(), candidates.end(), next_);
    const std::uint32_t chosen = next == candidates.end() ? candidates.front() : *next;
    next_ = chosen + 1;
    return chosen;
  }

 private:
  std::uint32_t next_ = 0;
};

}  // namespace railyard::workload::inference
