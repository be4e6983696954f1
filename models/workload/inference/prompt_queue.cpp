#include "workload/inference/prompt_queue.h"

#include <algorithm>

namespace railyard::workload::inference {

void PromptQueue::add(std::uint32_t request, std::uint32_t prompt_tokens) {
  ++requests_;
  ScheduledBatch::Item chunk;
  chunk.request = request;
  for (std::uint32_t start = 0; start < prompt_tokens; start += chunk.tokens, ++chunk.chunk) {
    chunk.start = start;
    chunk.tokens = std::min(chunk_tokens_, prompt_tokens - start);
    chunk.is_first = start == 0;
    chunk.samples = start + chunk.tokens == prompt_tokens;
    waiting_.push_back(chunk);
  }
}

ScheduledBatch PromptQueue::compose() {
  ScheduledBatch batch;
  batch.items.push_back(waiting_.front());
  waiting_.pop_front();
  ++composed_;
  return batch;
}

std::vector<std::uint32_t> PromptQueue::complete(const ScheduledBatch& batch) {
  const ScheduledBatch::Item& chunk = batch.items.front();
  if (!chunk.samples) return {};
  --requests_;
  return {chunk.request};
}

}  // namespace railyard::workload::inference
