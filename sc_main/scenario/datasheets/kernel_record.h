// The table of keys of a sheet of kernels (platforms/datasheets/kernels): constants that GPUs share. A sheet may name another one
// as its `base:`.
#pragma once

#include "gpu/kernel_constants.h"
#include "sc_main/scenario/table/record.h"

namespace railyard::scenario {

/// All keys are required: each value is in the sheet or in its base.
Record<gpu::KernelConstants> kernel_record();

}  // namespace railyard::scenario
