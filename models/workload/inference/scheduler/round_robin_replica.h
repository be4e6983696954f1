// The replica after the last one.
#pragma once

#include "workload/inference/scheduler/replica_choice.h"

namespace railyard::workload::inference {

class RoundRobinReplica : public ReplicaChoice {
 public:
  std::uint32_t choose(const std::vector<ReplicaLoad>& loads, std::uint32_t) override {
    return next_++ % static_cast<std::uint32_t>(loads.size());
  }

 private:
  std::uint32_t next_ = 0;
};

}  // namespace railyard::workload::inference
