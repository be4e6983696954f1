// workload.speculation: speculative decoding of a serving engine.
#pragma once

#include <optional>
#include <string>

#include "sc_main/scenario/kinds/kind.h"
#include "sc_main/scenario/table/record.h"
#include "workload/inference/engine/instance_spec.h"

namespace railyard::scenario {

/// Tables of keys; no word but "none" is accepted instead.
Fields speculation_fields();

/// Speculation of an instance: workload.speculation, with the instance's own keys read over it. Sets nothing without both.
/// @param key  of the instance
/// @pre rules and mapping of the instance are set. @throws InputError
void resolve_speculation(workload::inference::InstanceSpec& instance, const std::string& key, const Setting& setting);
/// The drafts of its scheduler. @pre the scheduler is set
void resolve_drafts(workload::inference::InstanceSpec& instance, const std::string& key, const Setting& setting);

}  // namespace railyard::scenario
