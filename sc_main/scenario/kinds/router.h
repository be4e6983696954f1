// workload.router of the kind `serving`: a word for a policy, or a mapping.
#pragma once

#include <optional>

#include "sc_main/scenario/table/record.h"
#include "workload/inference/routing/router_spec.h"

namespace railyard::scenario {

using workload::inference::RouterPolicy;
using workload::inference::RouterSpec;

Record<RouterSpec> router_record();

/// What the router is for.
struct RouterSetting {
  bool has_answers = false;      ///< instances that compute only answers
  bool has_choice = false;       ///< several instances for the same part of a request
  bool names_instances = false;  ///< requests say where they go
};
/// If nothing is written: `fixed` if requests say where they go, or need not; else round_robin.
/// @throws InputError: keys that do not fit together
RouterSpec resolve_router(const RouterSetting& setting, const Source& source);
/// @throws InputError: the policy compares prompts, and requests do not tell what is in them
void check_contents(const RouterSpec& router, bool has_contents, const Source& source);

}  // namespace railyard::scenario
