#include "workload/inference/scheduler/paged_strategies.h"

#include "workload/inference/scheduler/continuous_scheduler.h"
#include "workload/inference/scheduler/sglang_scheduler.h"
#include "workload/inference/scheduler/trtllm_scheduler.h"

namespace railyard::workload::inference {

std::unique_ptr<PagedScheduler> make_paged_scheduler(const SchedulerSpec& spec, std::uint32_t blocks) {
  switch (spec.reserve) {
    case Reserve::full_output: return std::make_unique<TrtllmScheduler>(spec, blocks);
    case Reserve::expected_output: return std::make_unique<SglangScheduler>(spec, blocks);
    case Reserve::chunk:
    case Reserve::sequence: break;
  }
  return std::make_unique<ContinuousScheduler>(spec, blocks);
}

}  // namespace railyard::workload::inference
