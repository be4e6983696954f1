// workload.host: host software of a serving engine, for kinds that serve requests.
#pragma once

#include <optional>
#include <string>

#include "base/cpu.h"
#include "sc_main/scenario/table/record.h"
#include "workload/host.h"

namespace railyard::scenario {

struct HostSection {
  std::optional<std::string> preset;
  std::optional<bool> async;
  std::optional<double> step_us, sequence_us, layer_us, eager_layer_us, request_us, token_us;
};

/// @param otherwise  the preset without a written one, for the documentation
Record<HostSection> host_record(const char* otherwise);
/// @param otherwise  the preset without a written one
/// @param streams    clients get each token when it is made
workload::Host resolve_host(const HostSection& written, const std::string& otherwise, Cpu cpu, bool streams = true);

}  // namespace railyard::scenario
