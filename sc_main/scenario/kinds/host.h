// workload.host: host software of a serving engine, for kinds that serve requests. The keys are read over the engine's sheet.
#pragma once

#include "sc_main/scenario/datasheets/engine_record.h"
#include "sc_main/scenario/table/record.h"
#include "workload/host.h"

namespace railyard::scenario {

/// What a scenario may set, or the word none: what GPUs and links take alone. Defaults are those of the engine.
Record<workload::Host> host_record();
inline constexpr const char* kHostDoc = "host software of the serving engine. none: what GPUs and links take alone";

/// The host of the sheet on a CPU, with the keys of workload.host.
/// @param streams  clients get each token when it is made
workload::Host resolve_host(const HostSheet& sheet, Cpu cpu, const Source& source, bool streams = true);

}  // namespace railyard::scenario
