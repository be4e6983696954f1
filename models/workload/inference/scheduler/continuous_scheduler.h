// vLLM's scheduler: which tokens of which requests run in the next forward pass. The rules are those of V1
// (v1/core/sched/scheduler.py, v0.19); BatchMix::prefill_first is V0 (core/scheduler.py, v0.6).
//
//   1. Running requests, in order of admission. If there is no block for a request's new tokens, the last running
//      request is preempted: its blocks are released and it returns to the head of the queue. Its blocks keep their
//      content until they are taken, so the request may find them again.
//   2. Waiting requests, in order, if nobody was preempted, until the budget of tokens, the slots or the blocks are
//      used up. Tokens of full blocks that the prefix index finds are not computed.
#pragma once

#include "workload/inference/scheduler/paged_scheduler.h"

namespace railyard::workload::inference {

class ContinuousScheduler : public PagedScheduler {
 public:
  ContinuousScheduler(const SchedulerSpec& spec, std::uint32_t blocks) : PagedScheduler(spec, blocks) {}

 private:
  void fill(ScheduledBatch& batch) override;
  std::uint64_t blocks_to_start(const Sequence& s, const KvStore::Prefix& hits, std::uint64_t tokens) const override;
  Room make_room(ScheduledBatch& batch, std::size_t& place, std::uint64_t tokens, std::uint64_t& budget) override;
  Sequence& victim() const;
};

}  // namespace railyard::workload::inference
