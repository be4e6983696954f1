// Dynamo's rules by load (ai-dynamo/dynamo, lib/kv-router/src/conditional_disagg.rs): PrefillLoadPolicy keeps the prompt if the instance
// for it is busy; IslOrLoadPolicy also if IslBoundingPolicy does.
#pragma once

#include <optional>
#include <utility>

#include "workload/inference/routing/isl_bounding_decider.h"

namespace railyard::workload::inference {

class PrefillLoadDecider : public PromptDecider {
 public:
  explicit PrefillLoadDecider(std::optional<IslBoundingDecider> or_by = {}) : or_by_(std::move(or_by)) {}
  bool keeps(const PromptFacts& facts) const override {
    return facts.is_prefill_busy || (or_by_ && or_by_->keeps(facts));
  }
  bool asks_load() const override { return true; }

 private:
  std::optional<IslBoundingDecider> or_by_;
};

}  // namespace railyard::workload::inference
