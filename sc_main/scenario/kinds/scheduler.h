// workload.scheduler: the continuous-batching scheduler of a serving engine, by a preset and single settings.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "gpu/datasheet.h"
#include "sc_main/scenario/table/record.h"
#include "workload/inference/engine/instance_spec.h"

namespace railyard::scenario {

struct SchedulerSection {
  std::optional<std::string> preset, library;
  std::optional<workload::inference::QueuePolicy> policy;
  std::optional<workload::inference::BatchMix> mix;
  std::optional<workload::inference::Reserve> reserve;
  std::optional<workload::inference::Preemption> preemption;
  std::optional<std::uint32_t> max_batched_tokens, max_seqs, max_model_len, long_prefill_threshold_tokens, block_tokens,
      max_in_flight;
  std::optional<bool> chunked_prefill, prefix_caching;
  std::optional<double> watermark_ratio;
};

Record<SchedulerSection> scheduler_record();
/// The written preset, or the default.
std::string scheduler_preset(const SchedulerSection& written);
/// The preset of the host software that belongs to a preset of the scheduler.
std::string host_of_scheduler(const std::string& preset);

/// What presets depend on.
struct SchedulerSetting {
  const gpu::GpuDatasheet& gpu;
  bool async_host;
  std::uint32_t context_tokens;  ///< of the model
};
/// Sets the instance's preset and engine: those of `own`, else of `common`. @param key  of the instance
void resolve_engine(workload::inference::InstanceSpec& spec, const SchedulerSection& common,
                    const SchedulerSection& own, const std::string& key, const Source& source);
/// Sets the instance's scheduler: the preset, then `common`, then `own`. @pre resolve_engine(), and the mapping
void resolve_scheduler(workload::inference::InstanceSpec& spec, const SchedulerSection& common,
                       const SchedulerSection& own, const SchedulerSetting& setting, const std::string& key,
                       const Source& source);

}  // namespace railyard::scenario
