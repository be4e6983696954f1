// A scheduler step by step: short requests, and batches as text.
#pragma once

#include <boost/test/unit_test.hpp>
#include <string>

#include "workload/inference/scheduler/scheduler.h"

namespace railyard::test {

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

/// One batch in flight at a time.
inline ScheduledBatch step(Scheduler& scheduler) {
  ScheduledBatch batch = scheduler.compose();
  scheduler.complete(batch);
  return batch;
}

inline void run_to_end(Scheduler& scheduler) {
  while (!scheduler.empty()) BOOST_TEST_REQUIRE(!step(scheduler).items.empty());
}

}  // namespace railyard::test
