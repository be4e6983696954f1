// The room `datasheets` reads datasheets, which embed.cmake compiles in, or a user's file. A NAME_record() has the
// table of keys of each sort: GPU, NIC, switch and board, engine (EngineSheet), training software. load_NAME() follows
// `base:` and `family:`, and returns the struct that it fills. Machine and kinds of the loader call it.
//
// Datasheets: YAML files in platforms/datasheets/, compiled into this library
// so that an executable needs no files, or a user's file. Their keys are the
// field names of the structs that they fill. Each file has a `source:`.
#pragma once

#include <string>

#include "base/cpu.h"
#include "base/input_error.h"
#include "platforms/machine_spec.h"
#include "sc_main/scenario/datasheets/engine_record.h"
#include "sc_main/scenario/datasheets/machine_records.h"
#include "sc_main/scenario/table/record.h"
#include "workload/host.h"
#include "workload/training/plan/software.h"

namespace railyard::scenario {

/// The name of a datasheet in a scenario: a shipped datasheet ("L40S"), or the path of a file.
struct DatasheetName {
  std::string name;
  std::string key;  ///< key in the scenario, for errors
  Origin origin;
};

/// Of workload.engine where a model is served.
inline constexpr const char* kDefaultEngine = "vllm-0.19";

gpu::GpuDatasheet load_gpu(const DatasheetName& which);
/// The form factor of a GPU ("sxm5"); "": its datasheet does not say, so it fits every board.
std::string gpu_form(const DatasheetName& which);
/// Of a GPU's datasheet; without a source: parts as on the board.
ServerParts server_parts(const DatasheetName& gpu);
/// The form factors that a board holds.
std::vector<std::string> board_forms(const std::string& platform);
platforms::NicDatasheet load_nic(const DatasheetName& which);
platforms::IbSwitchDatasheet load_ib_switch(const DatasheetName& which);
/// The protocol of a GPU's NVLink generation; errors refer to the GPU's name.
platforms::NvLinkProtocol load_nvlink_protocol(std::uint32_t generation, DatasheetName gpu);
platforms::PcieSwitchDatasheet load_pcie_switch(const DatasheetName& which);
/// Kernels and rules of a serving engine, or of NCCL.
EngineSheet load_engine(const DatasheetName& which);
/// The same, of an engine that serves requests: with scheduler and host.
EngineSheet load_serving_engine(const DatasheetName& which);
/// A connector that moves KV between instances.
workload::inference::KvConnector load_connector(const DatasheetName& which);
/// A software stack for training.
workload::training::Software load_software(const DatasheetName& which);
/// The protocol of a NIC: "infiniband", "roce" or "efa".
platforms::InfiniBandProtocol load_network_protocol(const std::string& name);
/// Adds a board and its internal protocols to a machine.
platforms::MachineSpec load_board(const std::string& platform, platforms::MachineSpec machine = {});

/// Gives a machine with the board of plx_box the layout, root complexes and socket link of another board.
void load_pcie_board(const DatasheetName& which, platforms::MachineSpec& machine);

/// The fields that machine.overrides can change, by role; they apply to a MachineSpec.
const Fields& override_fields();

/// Names of the shipped datasheets in a folder ("gpus"), sorted.
std::vector<std::string> shipped_datasheets(const std::string& folder);

}  // namespace railyard::scenario
