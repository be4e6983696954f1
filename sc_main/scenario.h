// A scenario, loaded: everything a run needs, typed, defaulted and checked. The loader (scenario/) reads YAML and links no
// SystemC; what it cannot accept it refuses with an InputError, so that nothing later has to look at the file again.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/input_error.h"
#include "base/units.h"
#include "platforms/machine_spec.h"
#include "transport/traffic_class.h"
#include "workload/model_shape.h"
#include "workload/prefill/spec.h"
#include "workload/traffic.h"

namespace railyard {

struct FabricSpec {
  Bytes transaction_bytes = 0;       ///< 0: auto
  std::array<transport::ClassSpec, kTrafficClasses> classes{};
};

struct Scenario {
  std::string path;                  ///< as given on the command line
  std::string platform;              ///< plx_box | dgx_h100 | dgx_a100
  std::uint64_t seed = 1;
  workload::ModelShape model;
  platforms::MachineSpec machine;
  FabricSpec fabric;
  workload::prefill::PrefillSpec workload;
  /// Where the mappings, the model's data type and the network are written, for errors that only later arithmetic finds.
  Origin prefill_origin, decode_origin, model_origin, network_origin;
};

}  // namespace railyard
