#include "workload/inference/scheduler/continuous_scheduler.h"

#include <algorithm>

namespace railyard::workload::inference {

void ContinuousScheduler::fill(ScheduledBatch& batch) {
  const std::size_t slots = free_slots();
  std::uint64_t tokens = budget();
  const bool is_mixed = spec().mix == BatchMix::mixed;
  run_running(batch, tokens, is_mixed ? Which::all : Which::prompts);
  run_waiting(batch, tokens, slots);
  if (!is_mixed && batch.items.empty()) run_decodes(batch);
}

std::uint64_t ContinuousScheduler::blocks_to_start(const Sequence& s, const KvStore::Prefix& hits,
                                                   std::uint64_t tokens) const {
  const std::uint64_t whole = spec().reserve == Reserve::chunk ? 0 : s.known;
  return free_blocks_for(s, hits, store().blocks_for(std::max(tokens, whole)));
}

PagedScheduler::Room ContinuousScheduler::make_room(ScheduledBatch& batch, std::size_t& place, std::uint64_t tokens,
                                                    std::uint64_t& budget) {
  const auto last = [this]() -> Sequence& { return victim(); };
  return preempt_until(batch, place, tokens, budget, true, last) ? Room::made : Room::full;
}

ContinuousScheduler::Sequence& ContinuousScheduler::victim() const {
  if (spec().policy == QueuePolicy::fcfs) return *in_order().back();
  return **std::max_element(in_order().begin(), in_order().end(),
                            [&](const Sequence* a, const Sequence* b) { return is_before(*a, *b); });
}

}  // namespace railyard::workload::inference
