// llm-d's decider (llm-d/llm-d-router, prefix-based-pd-decider): the prompt stays if fewer tokens than a limit are new there.
#pragma once

#include "workload/inference/routing/prompt_decider.h"

namespace railyard::workload::inference {

class UncachedTokensDecider : public PromptDecider {
 public:
  explicit UncachedTokensDecider(std::uint64_t tokens) : tokens_(tokens) {}
  bool keeps(const PromptFacts& facts) const override { return facts.new_tokens() < tokens_; }

 private:
  std::uint64_t tokens_;
};

}  // namespace railyard::workload::inference
