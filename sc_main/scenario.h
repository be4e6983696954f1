// A scenario, loaded: everything a run needs, typed, defaulted and checked. The loader (scenario/) reads YAML and links no
// SystemC; what it cannot accept it refuses with an InputError, so that nothing later has to look at the file again.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "base/input_error.h"
#include "base/units.h"
#include "platforms/machine_spec.h"
#include "transformer/model_shape.h"
#include "transport/link/traffic_class.h"
#include "transport/study/fidelity.h"
#include "workload/bench/collective_spec.h"
#include "workload/bench/kernel_spec.h"
#include "workload/bench/layer_spec.h"
#include "workload/bench/overlap_spec.h"
#include "workload/bench/point_to_point_spec.h"
#include "workload/prefill/spec.h"
#include "workload/traffic.h"

namespace railyard {

struct FabricSpec {
  transport::Fidelity fidelity = transport::Fidelity::train;
  Bytes transaction_bytes = 0;  ///< 0: auto
  std::array<transport::ClassSpec, kTrafficClasses> classes{};
};

/// Of a link: the direction in which the device that its name speaks of sends, the other one, or both.
enum class LinkSide : std::uint8_t { tx, rx, both };

/// Something that happens to the machine during the run.
struct MachineEvent {
  enum class Kind : std::uint8_t { derate, fail, slow_gpu } kind = Kind::derate;
  Time at;
  std::string name;  ///< of a link or a GPU, not looked up yet
  std::string key;   ///< of the name, for errors; where it is written:
  Origin origin;
  LinkSide side = LinkSide::both;
  double ratio = 1;  ///< of the rate or speed that it was built with; fail: 0
};

struct Scenario {
  std::string path;      ///< as given on the command line
  std::string name;      ///< in outputs
  std::string resolved;  ///< as YAML, with --set applied; run again, it makes the same outputs
  std::string platform;  ///< plx_box | dgx_h100 | dgx_a100
  std::uint64_t seed = 1;
  transformer::ModelShape model;   ///< of kinds that run one; otherwise nameless
  std::vector<std::string> notes;  ///< lines for stderr about inputs that change nothing
  platforms::MachineSpec machine;
  FabricSpec fabric;
  std::vector<MachineEvent> events;
  /// By workload.kind.
  std::variant<workload::prefill::PrefillSpec, workload::collective_bench::CollectiveBenchSpec,
               workload::p2p::PointToPointSpec, workload::kernel_bench::KernelBenchSpec, workload::layer::LayerSpec,
               workload::overlap::OverlapSpec>
      workload;
  /// Where the workload, the mappings, the model's data type and the network are written, for errors that only later arithmetic finds.
  Origin workload_origin, prefill_origin, decode_origin, model_origin, network_origin;

  /// @pre workload.kind: disaggregated_prefill
  workload::prefill::PrefillSpec& prefill() { return std::get<workload::prefill::PrefillSpec>(workload); }
  const workload::prefill::PrefillSpec& prefill() const { return std::get<workload::prefill::PrefillSpec>(workload); }
};

}  // namespace railyard
