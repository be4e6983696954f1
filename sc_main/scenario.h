// A scenario, loaded: everything a run needs, typed, defaulted and checked. The loader (scenario/) reads YAML and links no
// SystemC; what it cannot accept it refuses with an InputError, so that nothing later has to look at the file again.
#pragma once

#include <any>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/input_error.h"
#include "base/units.h"
#include "platforms/machine_spec.h"
#include "transformer/model_shape.h"
#include "transport/link/traffic_class.h"
#include "transport/study/fidelity.h"
#include "workload/traffic.h"

namespace railyard {

struct FabricSpec {
  transport::Fidelity fidelity = transport::Fidelity::train;
  Bytes transaction_bytes = 0;                                                                   ///< 0: auto
  std::array<transport::ClassSpec, kTrafficClasses> classes{{{0, 1, 0}, {0, 1, 0}, {1, 1, 0}}};  ///< tp, pp, kv
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
  std::any workload;  ///< the spec of its kind: a workload::layer::LayerSpec, for example
  /// Where the workload, the mappings, the model's data type and the network are written, for errors that only later arithmetic finds.
  Origin workload_origin, prefill_origin, decode_origin, model_origin, network_origin;

  /// Of a kind's spec: nullptr where the workload is of another kind.
  template <class Spec>
  const Spec* if_spec() const {
    return std::any_cast<Spec>(&workload);
  }
  /// @pre the workload is of this kind
  template <class Spec>
  const Spec& spec() const {
    return std::any_cast<const Spec&>(workload);
  }
};

}  // namespace railyard
