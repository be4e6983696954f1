// Dynamo's default (ai-dynamo/dynamo, lib/kv-router/src/conditional_disagg.rs, IslBoundingPolicy): the prompt stays if it is small and
// mostly known there: new tokens < a limit, and new tokens / prompt < a share.
#pragma once

#include "workload/inference/routing/prompt_decider.h"

namespace railyard::workload::inference {

class IslBoundingDecider : public PromptDecider {
 public:
  IslBoundingDecider(std::uint64_t tokens, double ratio) : tokens_(tokens), ratio_(ratio) {}
  bool keeps(const PromptFacts& facts) const override {
    const std::uint64_t prompt = std::max<std::uint64_t>(facts.prompt_tokens, 1);
    return facts.new_tokens() < tokens_ &&
           static_cast<double>(facts.new_tokens()) / static_cast<double>(prompt) < ratio_;
  }

 private:
  std::uint64_t tokens_;
  double ratio_;
};

}  // namespace railyard::workload::inference
