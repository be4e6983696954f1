// SGLang's scheduler (managers/scheduler.py, schedule_batch.py, schedule_policy.py; v0.4): prompts and decodes in batches of their
// own, prompts first. A request starts if there are blocks for its prompt, for its answer, and for the share of the running
// requests' answers that is expected, which falls with each batch of decodes. When the running requests outgrow the blocks after
// all, those with the shortest answers so far are retracted to the end of the queue, and the share rises.
//
// With receive_interval, it looks for new requests after so many batches of decodes only, after each batch of prompts, and when
// nothing runs (managers/scheduler_recv_skipper.py). Requests that it has seen and could not start are tried in each step.
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
  /// Whether it looks for requests before this batch.
  bool receives();

  double expected_ratio_;           ///< share of answers
  std::uint32_t steps_unseen_ = 0;  ///< since it last looked for requests
  bool has_decoded_ = false;        ///< the last batch had decodes
  bool has_refused_ = false;        ///< it has seen requests that wait
};

}  // namespace railyard::workload::inference
