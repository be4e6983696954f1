// How far a request is on an instance. What schedulers of all kinds count, and the batch item that follows.
#pragma once

#include <cstdint>

#include "workload/inference/scheduler/scheduled_batch.h"

namespace railyard::workload::inference {

struct Progress {
  std::uint32_t number = 0;  ///< of the request
  std::uint64_t prompt = 0;
  std::uint64_t all = 0;       ///< prompt and answer
  std::uint64_t known = 0;     ///< tokens
  std::uint64_t computed = 0;  ///< tokens, counted when they are scheduled
  std::uint64_t prefill = 0;   ///< tokens known when it started, or returned after a preemption
  std::uint32_t sampling = 0;  ///< tokens that batches in flight produce, if all drafts are right
  std::uint32_t batches = 0;   ///< these batches
  std::uint32_t chunks = 0;    ///< of the prompt, in batches so far
  bool has_started = false;
  bool decodes_first = false;  ///< its first token is a decode of the prompt's last token

  /// The next `tokens` tokens go into a batch. Those after the tokens that are known, or that batches in flight produce, are
  /// drafts.
  ScheduledBatch::Item schedule(std::uint64_t tokens);
  /// The item is not computed after all. @pre it is the latest one
  void take_back(const ScheduledBatch::Item& item);
  /// The tokens of an item that produces some are known.
  void complete(const ScheduledBatch::Item& item);
};

}  // namespace railyard::workload::inference
