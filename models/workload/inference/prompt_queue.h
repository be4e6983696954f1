// Prompts one by one, first come first served, in chunks; a batch is one chunk. Stage 0 gets its next chunk when it
// begins the previous one, so it always has a chunk if one is waiting. A prompt has memory for all its KV before its first
// chunk, and until its KV has been read.
#pragma once

#include <cstdint>
#include <deque>
#include <unordered_map>

#include "workload/inference/batch_source.h"
#include "workload/inference/kv_cache.h"

namespace railyard::workload::inference {

class PromptQueue : public BatchSource {
 public:
  PromptQueue(std::uint32_t chunk_tokens, KvCache& kv) : chunk_tokens_(chunk_tokens), kv_(kv) {}

  /// Memory for each request has been checked before the run.
  bool can_hold(const Request&) const override { return true; }
  void add(std::uint32_t number, const Request& request, PromptContent content, RequestPart part) override;
  std::vector<Reservation> reserve() override;
  void arrived(std::uint32_t) override {}
  void release(std::uint32_t number) override;
  std::string blocked() const override;

  bool may_compose() const override { return !chunks_.empty() && composed_ == begun_; }
  ScheduledBatch compose() override;
  void begun(const ScheduledBatch&) override { ++begun_; }
  /// A request leaves with its last chunk.
  std::vector<std::uint32_t> complete(const ScheduledBatch& batch) override;
  bool empty() const override { return requests_ == 0; }

 private:
  std::uint32_t chunk_tokens_;
  KvCache& kv_;
  std::deque<std::uint32_t> waiting_;                         ///< for memory
  std::unordered_map<std::uint32_t, std::uint32_t> prompts_;  ///< tokens, of requests that wait for or have memory
  std::deque<ScheduledBatch::Item> chunks_;
  std::uint32_t requests_ = 0, composed_ = 0, begun_ = 0;
};

}  // namespace railyard::workload::inference
