// workload.scheduler: the continuous-batching scheduler of a serving engine. The keys are read over the engine's sheet.
#pragma once

#include <cstdint>
#include <string>

#include "gpu/datasheet.h"
#include "sc_main/scenario/datasheets/engine_record.h"
#include "sc_main/scenario/table/record.h"
#include "workload/inference/engine/instance_spec.h"

namespace railyard::scenario {

/// What a scenario may set. Defaults are those of the engine.
Record<workload::inference::SchedulerSpec> scheduler_record();

/// What an engine's defaults depend on.
struct SchedulerSetting {
  const SchedulerSheet& sheet;
  const gpu::GpuDatasheet& gpu;
  bool async_host;
  std::uint32_t context_tokens;  ///< of the model
};
/// The scheduler of an instance: the sheet's, with workload.scheduler read over it, then with the instance's own.
/// @param key  of the instance. @throws InputError
workload::inference::SchedulerSpec resolve_scheduler(const SchedulerSetting& setting, std::uint32_t pp,
                                                     const std::string& key, const Source& source);

}  // namespace railyard::scenario
