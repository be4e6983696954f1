// The links between the GPUs of an imported cluster: those of the platform, or those that the file gives.
#pragma once

#include <cstdint>
#include <string>

#include "platforms/machine_spec.h"
#include "sc_main/scenario/table/node.h"

namespace railyard::scenario {

/// GPUs of a server group, by their numbers in it, [first, first + count).
struct GpuRange {
  std::uint32_t first = 0, count = 1;
};

/// How bytes between these GPUs go, and by what that is decided: "below one PCIe switch". @pre count > 1
std::string path_between(const GpuRange& gpus, const platforms::MachineSpec& board, const gpu::GpuDatasheet& gpu);

/// Keys of machine.overrides with which a message between any two GPUs of a server takes link_latency + bytes / link_bw, as
/// in LLMServingSim's fully connected network: without packets' overhead, limits of buffers, or time in switches.
/// @param root  the cluster configuration, already checked
/// @throws InputError: different values for several dimensions
NodePtr given_links(const NodePtr& root, const platforms::MachineSpec& board, const gpu::GpuDatasheet& gpu);

}  // namespace railyard::scenario
