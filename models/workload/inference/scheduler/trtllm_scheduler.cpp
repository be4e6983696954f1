#include "workload/inference/scheduler/trtllm_scheduler.h"

#include <stdexcept>

namespace railyard::workload::inference {

void TrtllmScheduler::fill(ScheduledBatch& batch) {
  const std::size_t slots = free_slots();
  std::uint64_t tokens = budget();
  run_running(batch, tokens, Which::all);
  run_waiting(batch, tokens, slots);
}

std::uint64_t TrtllmScheduler::blocks_to_start(const Sequence& s, const KvStore::Prefix& hits, std::uint64_t) const {
  const auto rest = [this](const Sequence& of) { return spec().most_slots(of.all) - of.known; };
  return free_blocks_for(s, hits, store().blocks_for(s.known + rest(s))) + blocks_of_others(s, rest);
}

PagedScheduler::Room TrtllmScheduler::make_room(ScheduledBatch&, std::size_t& place, std::uint64_t, std::uint64_t&) {
  throw std::logic_error("no block for request " + std::to_string(in_order()[place]->number) +
                         ", whose whole answer has blocks");
}

}  // namespace railyard::workload::inference
