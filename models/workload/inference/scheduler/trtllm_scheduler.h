// TensorRT-LLM's scheduler with GUARANTEED_NO_EVICT, its default (llmapi/llm_args.py): as vLLM's, but a request starts only if
// there are blocks for the whole answers of all requests with memory and for its own. So nobody is ever preempted.
#pragma once

#include "workload/inference/scheduler/paged_scheduler.h"

namespace railyard::workload::inference {

class TrtllmScheduler : public PagedScheduler {
 public:
  /// @pre spec.reserve == Reserve::full_output
  TrtllmScheduler(const SchedulerSpec& spec, std::uint32_t blocks) : PagedScheduler(spec, blocks) {}

 private:
  void fill(ScheduledBatch& batch) override;
  std::uint64_t tokens_at_once(const Request& request, std::uint64_t) const override { return request.prompt_tokens; }
  std::uint64_t blocks_to_start(const Sequence& s, const KvStore::Prefix& hits, std::uint64_t tokens) const override;
  Room make_room(ScheduledBatch& batch, std::size_t& place, std::uint64_t tokens, std::uint64_t& budget) override;
};

}  // namespace railyard::workload::inference
