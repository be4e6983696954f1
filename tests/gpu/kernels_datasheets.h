// A shipped GPU datasheet, as a scenario that names it would get it.
#pragma once

#include <string>

#include "gpu/datasheet.h"
#include "sc_main/scenario/datasheets/datasheets.h"

namespace railyard::test {

inline gpu::GpuDatasheet gpu_datasheet(const std::string& name) {
  return scenario::load_gpu({name, "gpu", Origin{"test"}});
}

}  // namespace railyard::test
