// The table of keys of a serving engine's datasheet (platforms/datasheets/engines).
#pragma once

#include "collective/engine.h"
#include "sc_main/scenario/table/record.h"
#include "workload/inference/serving_rules.h"

namespace railyard::scenario {

struct EngineSheet : collective::Engine {
  workload::inference::ServingRules rules;
};

Record<EngineSheet> engine_record();

}  // namespace railyard::scenario
