// The table of keys of a serving engine's datasheet (platforms/datasheets/engines), and of times of its host by CPU.
#pragma once

#include "collective/engine.h"
#include "sc_main/scenario/table/record.h"
#include "workload/inference/engine/serving_rules.h"

namespace railyard::scenario {

struct EngineSheet : collective::Engine {
  workload::inference::ServingRules rules;
};

Record<EngineSheet> engine_record();
/// @param doc  what takes the time
Record<collective::EagerCall> eager_call_record(const char* doc);

}  // namespace railyard::scenario
