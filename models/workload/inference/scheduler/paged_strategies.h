// Which strategy a scheduler's settings name.
#pragma once

#include <cstdint>
#include <memory>

#include "workload/inference/scheduler/paged_scheduler.h"

namespace railyard::workload::inference {

/// By SchedulerSpec::reserve: full_output is TrtllmScheduler, expected_output SglangScheduler, all others ContinuousScheduler.
std::unique_ptr<PagedScheduler> make_paged_scheduler(const SchedulerSpec& spec, std::uint32_t blocks);

}  // namespace railyard::workload::inference
