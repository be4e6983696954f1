// A scheduler step by step: short requests, and batches as text.
#pragma once

#include <boost/test/unit_test.hpp>
#include <string>
#include <vector>

#include "workload/inference/scheduler/continuous_scheduler.h"

namespace railyard::test {

using workload::inference::ContinuousScheduler;
using workload::inference::Request;
using workload::inference::ScheduledBatch;
using workload::inference::Scheduler;

inline Request request(std::uint32_t prompt_tokens, std::uint32_t output_tokens, std::uint32_t priority = 0) {
  Request r;
  r.prompt_tokens = prompt_tokens;
  r.output_tokens = output_tokens;
  r.priority = priority;
  return r;
}

/// "request:tokens" of each item, in order.
inline std::string text(const ScheduledBatch& batch) {
  std::string all;
  for (const ScheduledBatch::Item& item : batch.items)
    all += (all.empty() ? "" : " ") + std::to_string(item.request) + ":" + std::to_string(item.tokens);
  return all;
}

/// A decode of so many tokens, the last one for a sequence of `context` tokens.
inline ScheduledBatch::Item decode(std::uint32_t request, std::uint64_t context, std::uint32_t tokens = 1) {
  ScheduledBatch::Item item;
  item.request = request;
  item.tokens = item.produces = tokens;
  item.start = context - tokens;
  item.is_decode = true;
  return item;
}
inline ScheduledBatch decodes(const std::vector<std::uint64_t>& contexts) {
  ScheduledBatch batch;
  for (std::uint32_t i = 0; i < contexts.size(); ++i) batch.items.push_back(decode(i, contexts[i]));
  return batch;
}
/// A chunk of a prompt.
inline ScheduledBatch chunk(std::uint64_t start, std::uint32_t tokens, bool is_last) {
  ScheduledBatch batch;
  batch.items.emplace_back();
  batch.items.front().start = start;
  batch.items.front().tokens = tokens;
  batch.items.front().produces = is_last ? 1 : 0;
  return batch;
}

/// One batch in flight at a time.
inline ScheduledBatch step(Scheduler& scheduler) {
  ScheduledBatch batch = scheduler.compose();
  scheduler.verify(batch);
  scheduler.complete(batch);
  return batch;
}

inline void run_to_end(Scheduler& scheduler) {
  while (!scheduler.empty()) BOOST_TEST_REQUIRE(!step(scheduler).items.empty());
}

}  // namespace railyard::test
