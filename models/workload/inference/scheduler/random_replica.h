// A replica by a draw that depends on the seed and the request alone.
#pragma once

#include "base/random.h"
#include "workload/inference/scheduler/replica_choice.h"

namespace railyard::workload::inference {

class RandomReplica : public ReplicaChoice {
 public:
  explicit RandomReplica(std::uint64_t seed) : seed_(seed) {}

  std::uint32_t choose(const std::vector<ReplicaLoad>& loads, std::uint32_t request) override {
    return static_cast<std::uint32_t>(mixed(seed_, request) % loads.size());
  }

 private:
  std::uint64_t seed_;
};

}  // namespace railyard::workload::inference
