// The table of keys of a training software's datasheet (platforms/datasheets/software).
#pragma once

#include "sc_main/scenario/table/record.h"
#include "workload/training/plan/software.h"

namespace railyard::scenario {

Record<workload::training::Software> software_record();

}  // namespace railyard::scenario
