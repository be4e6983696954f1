// Which attention replica of an instance takes a request, by the engine's rule. A request stays there.
//
//   least_load     the lowest 4 x waiting + running (vLLM, v1/engine/core_client.py, DPLBAsyncMPClient)
//   round_robin    one after the other (SGLang, managers/data_parallel_controller.py; server_args.py, load_balance_method: auto)
//   random         SGLang's rule follow_bootstrap_room of instances that prefill: a number that the router draws, modulo the replicas
//   fewest_tokens  the lowest sum of prompts, among those with less than their share of requests (TensorRT-LLM,
//                  _torch/pyexecutor/scheduler/adp_router.py, DefaultADPRouter)
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace railyard::workload::inference {

enum class ReplicaRule : std::uint8_t { least_load, round_robin, random, fewest_tokens };
inline constexpr std::array<const char*, 4> kReplicaRuleNames{"least_load", "round_robin", "random", "fewest_tokens"};

/// Of a replica.
struct ReplicaLoad {
  std::size_t waiting = 0, running = 0;
  std::uint32_t requests = 0;       ///< that are here: waiting, running, or with KV on its way
  std::uint64_t prompt_tokens = 0;  ///< of these
};

class ReplicaChoice {
 public:
  virtual ~ReplicaChoice() = default;
  /// @param loads  of the replicas; at least one  @return one of them; of equals the first
  virtual std::uint32_t choose(const std::vector<ReplicaLoad>& loads, std::uint32_t request) = 0;
};

/// @param seed  of random draws
std::unique_ptr<ReplicaChoice> make_replica_choice(ReplicaRule rule, std::uint64_t seed);

}  // namespace railyard::workload::inference
