// SGLang's scheduler (managers/scheduler.py, schedule_batch.py, schedule_policy.py; v0.4): prompts and decodes in batches of their
// own, prompts first. A request starts if there are blocks for its prompt, for its answer, and for the share of the running
// requests' answers that is expected, which falls with each batch of decodes. When the running requests outgrow the blocks after
// all, those with the shortest answers so far are retracted to the end of the queue, and the share rises.
#pragma once

#include "workload/inference/scheduler/paged_scheduler.h"

namespace railyard::workload::inference {

class SglangScheduler : public PagedScheduler {
 public:
  /// @pre spec.mix == BatchMix::prefill_first and spec.reserve == Reserve::expected_output
  SglangScheduler(const SchedulerSpec& spec, std::uint32_t blocks);

  std::vector<std::uint32_t> complete(const ScheduledBatch& batch) override;

 private:
  void fill(ScheduledBatch& batch) override;
  std::uint64_t blocks_to_start(const Sequence& s, const KvStore::Prefix& hits, std::uint64_t tokens) const override;
  Room make_room(ScheduledBatch& batch, std::size_t& place, std::uint64_t tokens, std::uint64_t& budget) override;
  /// Tokens of the answer for which blocks are reserved: all of a request that is starting or was prefilled in this batch, a
  /// share of other running requests.
  std::uint64_t reserved_answer(const Sequence& s) const;
  Sequence& victim() const;
  void retract(ScheduledBatch& batch);

  double expected_ratio_;  ///< share of answers
};

}  // namespace railyard::workload::inference
