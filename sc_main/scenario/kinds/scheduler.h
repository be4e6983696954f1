// workload.scheduler: the continuous-batching scheduler of a serving engine, by a preset and single settings.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "gpu/datasheet.h"
#include "sc_main/scenario/table/record.h"
#include "workload/inference/serving_spec.h"

namespace railyard::scenario {

struct SchedulerSection {
  std::optional<std::string> preset, library;
  std::optional<workload::inference::QueuePolicy> policy;
  std::optional<workload::inference::BatchMix> mix;
  std::optional<workload::inference::Reserve> reserve;
  std::optional<workload::inference::Preemption> preemption;
  std::optional<std::uint32_t> max_batched_tokens, max_seqs, long_prefill_threshold_tokens, block_tokens, max_in_flight;
  std::optional<bool> chunked_prefill, prefix_caching;
  std::optional<double> watermark_ratio;
};

Record<SchedulerSection> scheduler_record();

/// What presets depend on.
struct SchedulerSetting {
  const gpu::GpuDatasheet& gpu;
  bool async_host;
};
/// Sets the instance's scheduler and engine: the preset, then `common`, then `own`. @param key  of the instance
void resolve_scheduler(workload::inference::InstanceSpec& spec, const SchedulerSection& common,
                       const SchedulerSection& own, const SchedulerSetting& setting, const std::string& key,
                       const Source& source);

}  // namespace railyard::scenario
