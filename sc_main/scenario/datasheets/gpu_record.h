// The table of a GPU's datasheet, and limits shared by the tables of all datasheets.
#pragma once

#include "gpu/datasheet.h"
#include "sc_main/scenario/table/record.h"

namespace railyard::scenario {

/// A figure beyond these limits has a wrong unit. Rates are in GB/s.
constexpr double kMostNs = 1e6, kMostUs = 1e6, kLeastRate = 1e-6, kMostRate = 1e6, kMostBytes = 1e12;
constexpr double kOldestPcie = 3, kNewestPcie = 6;

Record<gpu::GpuDatasheet> gpu_record();

}  // namespace railyard::scenario
