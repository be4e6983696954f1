// The lines of --log-interval for serving engines, in the format of LLMServingSim's heartbeat.
#pragma once

#include <string>
#include <vector>

#include "workload/inference/service/service.h"

namespace railyard {

class ServingLog final : public workload::inference::ServiceSink {
 public:
  /// The rank of an instance that holds most.
  struct Rank {
    std::uint32_t ranks = 0;  ///< of the instance
    double fixed_bytes = 0;   ///< memory without KV cache
    double block_bytes = 0, capacity_bytes = 0;
  };
  /// Adds an instance, in the order of the spec.
  void add(const Rank& rank) { instances_.push_back({rank, 0, 0}); }

  /// The state of the engines at `now`, and their rates since the last text.
  std::string text(workload::inference::Service& service, Time now);

  void on_iteration(std::size_t instance, std::uint32_t number, const workload::inference::Iteration& iteration,
                    Time completed) override;

 private:
  struct Instance {
    Rank rank;
    std::uint64_t found_tokens = 0, prompt_tokens = 0;  ///< in the prefix index, and of all prompts
  };
  std::vector<Instance> instances_;
  Time last_;
  std::uint64_t prompt_tokens_ = 0, sampled_tokens_ = 0;  ///< since the last text
};

}  // namespace railyard
