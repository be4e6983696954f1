#include "workload/inference/scheduler/replica_choice.h"

#include "workload/inference/scheduler/fewest_tokens_replica.h"
#include "workload/inference/scheduler/least_load_replica.h"
#include "workload/inference/scheduler/random_replica.h"
#include "workload/inference/scheduler/round_robin_replica.h"

namespace railyard::workload::inference {

std::unique_ptr<ReplicaChoice> make_replica_choice(ReplicaRule rule, std::uint64_t seed) {
  switch (rule) {
    case ReplicaRule::least_load: return std::make_unique<LeastLoadReplica>();
    case ReplicaRule::round_robin: return std::make_unique<RoundRobinReplica>();
    case ReplicaRule::random: return std::make_unique<RandomReplica>(seed);
    case ReplicaRule::fewest_tokens: break;
  }
  return std::make_unique<FewestTokensReplica>();
}

}  // namespace railyard::workload::inference
