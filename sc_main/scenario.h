// A loaded scenario: everything that a run needs, with types, defaults and checks applied. The loader (scenario/) reads
// YAML and links no SystemC. It refuses bad input with an InputError, so later code never needs the file again.
#pragma once

#include <any>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/input_error.h"
#include "base/units.h"
#include "platforms/machine_spec.h"
#include "sc_main/module_spec.h"
#include "transformer/model_shape.h"
#include "transport/link/traffic_class.h"
#include "transport/study/fidelity.h"
#include "workload/traffic.h"

namespace railyard {

using ClassSpecs = std::array<transport::ClassSpec, kTrafficClasses.size()>;

constexpr ClassSpecs default_classes() {
  ClassSpecs all;
  for (const TrafficClassFacts& c : kTrafficClasses) all[number(c.traffic_class)] = c.defaults;
  return all;
}

struct FabricSpec {
  transport::Fidelity fidelity = transport::Fidelity::train;
  Bytes transaction_bytes = 0;             ///< 0: auto
  bool compose = true;                     ///< passes whose times are known
  ClassSpecs classes = default_classes();  ///< by number of the class
};

/// The direction of a link: tx is the direction in which the named device sends, rx the opposite direction.
enum class LinkSide : std::uint8_t { tx, rx, both };

/// A change of the machine during the run.
struct MachineEvent {
  enum class Kind : std::uint8_t { derate, fail, slow_gpu } kind = Kind::derate;
  Time at;
  std::string name;  ///< name of a link or a GPU, not looked up yet
  std::string key;   ///< key of the name in the scenario, for errors; its position:
  Origin origin;
  LinkSide side = LinkSide::both;
  double ratio = 1;  ///< relative to the original rate or speed; fail: 0
};

/// A part of the machine that the scenario does not name.
struct Assumption {
  std::string key;     ///< by which a scenario names it: machine.nic
  std::string value;   ///< "8 x connectx7_ndr in each server, 400 Gb/s each, network of qm9700"
  std::string source;  ///< the public page of the default
};

/// Whether copies of a part of the machine are simulated once (sc_main/fold.h).
enum class Folding : std::uint8_t { off, automatic, require };

struct Scenario {
  std::string path;      ///< as given on the command line
  std::string name;      ///< name in outputs
  std::string resolved;  ///< as YAML, with --set applied; a run of this text produces the same outputs
  std::string platform;  ///< plx_box | dgx_h100 | dgx_a100
  std::string kind;      ///< workload.kind; a kind and its preset have specs of one type
  std::uint64_t seed = 1;
  transformer::ModelShape model;   ///< only for kinds that run a model; otherwise without a name
  std::vector<std::string> notes;  ///< lines for stderr about inputs that have no effect
  platforms::MachineSpec machine;
  std::vector<Assumption> assumed;
  std::vector<ModuleSpec> modules;  ///< of the user, in the machine
  FabricSpec fabric;
  Folding fold = Folding::off;
  Origin fold_origin;
  std::vector<MachineEvent> events;
  std::any workload;  ///< the spec of its kind, for example a workload::layer::LayerSpec
  /// Positions of workload, the model's data type and network, for errors that only later arithmetic finds.
  Origin workload_origin, model_origin, network_origin;

  /// The spec of a kind; nullptr if the workload is of another kind.
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
