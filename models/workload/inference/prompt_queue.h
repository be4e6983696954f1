// Prompts one by one, first come first served, in chunks; a batch is one chunk. Stage 0 gets its next chunk when it
// begins the previous one, so it always has a chunk if one is waiting.
#pragma once

#include <cstdint>
#include <deque>

#include "workload/inference/batch_source.h"

namespace railyard::workload::inference {

class PromptQueue : public BatchSource {
 public:
  explicit PromptQueue(std::uint32_t chunk_tokens) : chunk_tokens_(chunk_tokens) {}

  void add(std::uint32_t request, std::uint32_t prompt_tokens);

  bool may_compose() const override { return !waiting_.empty() && composed_ == begun_; }
  ScheduledBatch compose() override;
  void begun(const ScheduledBatch&) override { ++begun_; }
  /// A request leaves with its last chunk.
  std::vector<std::uint32_t> complete(const ScheduledBatch& batch) override;
  bool empty() const override { return requests_ == 0; }

 private:
  std::uint32_t chunk_tokens_;
  std::deque<ScheduledBatch::Item> waiting_;  ///< chunks
  std::uint32_t requests_ = 0, composed_ = 0, begun_ = 0;
};

}  // namespace railyard::workload::inference
