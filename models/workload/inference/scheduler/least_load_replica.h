// The replica with the fewest requests, where one that waits counts as four that run.
#pragma once

#include <algorithm>

#include "workload/inference/scheduler/replica_choice.h"

namespace railyard::workload::inference {

class LeastLoadReplica : public ReplicaChoice {
 public:
  std::uint32_t choose(const std::vector<ReplicaLoad>& loads, std::uint32_t) override {
    const auto score = [](const ReplicaLoad& load) { return 4 * load.waiting + load.running; };
    const auto least = std::min_element(
        loads.begin(), loads.end(), [&](const ReplicaLoad& a, const ReplicaLoad& b) { return score(a) < score(b); });
    return static_cast<std::uint32_t>(least - loads.begin());
  }
};

}  // namespace railyard::workload::inference
