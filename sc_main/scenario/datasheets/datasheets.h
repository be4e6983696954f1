// Datasheets: YAML files under platforms/datasheets/, compiled into this library so that an executable runs from
// anywhere, or a user's own file. Their keys are the field names of the structs they fill; each file carries a
// `source:`.
#pragma once

#include <string>

#include "base/input_error.h"
#include "platforms/machine_spec.h"
#include "sc_main/scenario/table/record.h"
#include "workload/host.h"

namespace railyard::scenario {

/// A datasheet as a scenario names it: a shipped one ("L40S"), or the path of a file.
struct DatasheetName {
  std::string name;
  std::string key;  ///< of the scenario, for errors
  Origin origin;
};

constexpr double kLongestHostUs = 60e6;

gpu::GpuDatasheet load_gpu(const DatasheetName& which);
platforms::NicDatasheet load_nic(const DatasheetName& which);
platforms::IbSwitchDatasheet load_ib_switch(const DatasheetName& which);
/// Of a GPU's NVLink generation; errors are at the GPU's name.
platforms::NvLinkProtocol load_nvlink_protocol(std::uint32_t generation, DatasheetName gpu);
platforms::PcieSwitchDatasheet load_pcie_switch(const DatasheetName& which);
/// Host software of a serving engine.
workload::Host load_host(const std::string& preset);
/// Of a NIC: "infiniband", "roce" or "efa".
platforms::InfiniBandProtocol load_network_protocol(const std::string& name);
/// The board and the protocols inside it; groups, NIC, network and switches are still to be filled.
platforms::MachineSpec load_board(const std::string& platform);

/// What machine.overrides may change, by role; applies to a MachineSpec.
const Fields& override_fields();

/// Names of the shipped datasheets of a folder ("gpus"), sorted.
std::vector<std::string> shipped_datasheets(const std::string& folder);

}  // namespace railyard::scenario
