// The table of keys of a serving engine's datasheet (platforms/datasheets/engines).
#pragma once

#include "collective/engine.h"
#include "sc_main/scenario/table/record.h"

namespace railyard::scenario {

Record<collective::Engine> engine_record();

}  // namespace railyard::scenario
