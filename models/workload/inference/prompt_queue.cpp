#include "workload/inference/prompt_queue.h"

#include <fmt/format.h>
#include <algorithm>

namespace railyard::workload::inference {

void PromptQueue::add(std::uint32_t number, const Request& request, PromptContent, RequestPart) {
  waiting_.push_back(number);
  prompts_.emplace(number, request.prompt_tokens);
}

std::vector<Reservation> PromptQueue::reserve() {
  std::vector<Reservation> reserved;
  for (; !waiting_.empty() && kv_.hold(prompts_.at(waiting_.front())); waiting_.pop_front()) {
    ScheduledBatch::Item chunk;
    chunk.request = waiting_.front();
    const std::uint32_t prompt = prompts_.at(chunk.request);
    for (std::uint32_t start = 0; start < prompt; start += chunk.tokens, ++chunk.chunk) {
      chunk.start = start;
      chunk.tokens = std::min(chunk_tokens_, prompt - start);
      chunk.is_first = start == 0;
      chunk.samples = start + chunk.tokens == prompt;
      chunks_.push_back(chunk);
    }
    ++requests_;
    reserved.push_back({chunk.request, 0});
  }
  return reserved;
}

void PromptQueue::release(std::uint32_t number) {
  const auto prompt = prompts_.find(number);
  kv_.free(prompt->second);
  prompts_.erase(prompt);
}

std::string PromptQueue::blocked() const {
  if (waiting_.empty()) return "";
  return fmt::format("{} requests wait for KV memory, request {} first: {} tokens", waiting_.size(), waiting_.front(),
                     prompts_.at(waiting_.front()));
}

ScheduledBatch PromptQueue::compose() {
  ScheduledBatch batch;
  batch.items.push_back(chunks_.front());
  chunks_.pop_front();
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
