// workload.host: host software of a serving engine, for kinds that serve requests.
#pragma once

#include <optional>
#include <string>

#include "sc_main/scenario/table/record.h"
#include "workload/host.h"

namespace railyard::scenario {

struct HostSection {
  std::string preset = "vllm_v1";
  std::optional<bool> async;
  std::optional<double> step_us, sequence_us, layer_us, request_us, token_us;
};

Record<HostSection> host_record();
workload::Host resolve_host(const HostSection& written);

}  // namespace railyard::scenario
