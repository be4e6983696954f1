// Conditional disaggregation: whether the instance that is chosen for the answer computes the prompt, too, because little of it is new
// there, or because the instances that prefill are busy. Each rule is a file.
#pragma once

#include <algorithm>
#include <cstdint>

namespace railyard::workload::inference {

/// What a decider knows of a request.
struct PromptFacts {
  std::uint64_t prompt_tokens = 0;
  std::uint64_t cached_tokens = 0;  ///< in the prefix index of the instance for the answer, as the router has heard
  bool is_prefill_busy = false;     ///< the instance that the router would choose for the prompt

  std::uint64_t new_tokens() const { return prompt_tokens - std::min(cached_tokens, prompt_tokens); }
};

class PromptDecider {
 public:
  virtual ~PromptDecider() = default;
  /// Whether the prompt stays with the instance for the answer.
  virtual bool keeps(const PromptFacts& facts) const = 0;
  /// Whether is_prefill_busy counts.
  virtual bool asks_load() const { return false; }
};

}  // namespace railyard::workload::inference
