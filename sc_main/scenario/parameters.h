// A scenario as written: the structs that the parameter table fills, before names are looked up and sizes computed. The
// member initialisers are the defaults.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "platforms/machine_spec.h"
#include "sc_main/scenario.h"
#include "sc_main/scenario/kinds/kind.h"
#include "sc_main/scenario/model/config.h"
#include "sc_main/scenario/model/profile.h"
#include "sc_main/scenario/table/record.h"

namespace railyard::scenario {

struct GroupSection : platforms::GroupSpec {
  std::string datasheet;  ///< of its GPU; "": as on the board
};

enum class NetworkWord { single_switch, leaf_spine, rail_optimized };

/// A module as written: numbers and texts of its library's parameters.
struct ModuleItem {
  std::string name, library;  ///< name "": module and its number
  std::vector<ModuleSpec::Place> at;
  std::vector<ModuleSpec::Value> parameters;
};

struct MachineSection {
  platforms::MachineSpec machine;  ///< values that need no resolving: uplink, acs, rail_optimized, routing, spines
  std::vector<GroupSection> groups;
  std::string board;     ///< of PCIe cards; "": that of the platform
  std::string plx, nic;  ///< datasheets; "": as on the board
  std::string network;   ///< datasheet; "": that of the NIC
  std::optional<Cpu> cpu;
  std::optional<std::uint32_t> plx_switches, nics_per_plx, nics_per_server;
  std::optional<NetworkWord> network_kind;  ///< nullopt: the kind that fits
  platforms::NvLinkBridge nvlink_bridge = platforms::NvLinkBridge::none;
  bool allow_any_gpu = false;
  std::vector<ModuleItem> modules;
};

struct EventItem {
  double at_us = 0;
  std::string link, gpu, instance;  ///< "": none
  std::string join;                 ///< of an instance: where its weights are; "": it does not join
  std::optional<LinkSide> side;
  std::optional<double> rate_ratio, slow_ratio;
  bool fail = false, drain = false;
};

struct ScenarioFile {
  Scenario
      scenario;  ///< values that need no resolving: name ("": the file's path), platform ("": the executable's), seed,
                 ///< fabric
  std::uint32_t schema_version = 1;
  ModelSection model;
  MachineSection machine;
  ComputeSection compute;
  std::vector<EventItem> events;
  WorkloadSection workload;
};

/// The parameter table.
const Record<ScenarioFile>& scenario_table();

}  // namespace railyard::scenario
