// The graphs that NCCL plans with: how many rings, trees or in-switch heads share the links of a server, and the rate of each.
//
// NCCL knows a list of speeds per generation of GPU. It takes the speed that gives most, times the channels that fit the links
// at that speed, and then gives slow graphs more channels or a higher speed inside the server (NVIDIA/nccl v2.29.2
// src/graph/search.cc). What the kernels run with follows from it (src/graph/connect.cc).
#pragma once

#include <cstdint>
#include <string>

namespace railyard::collective {

/// As NCCL groups GPUs by compute capability.
enum class NcclGeneration : std::uint8_t { volta, ampere, hopper, blackwell };
/// Ampere, too: Ada, and what NCCL does not know.
NcclGeneration nccl_generation(const std::string& architecture);

/// The links of a server that a search shares out, in GB/s as NCCL counts them.
struct NcclLinks {
  NcclGeneration generation = NcclGeneration::ampere;
  std::uint32_t gpus = 1;   ///< of the server, that take part
  double gpu = 0;           ///< out of a GPU to the other ones of its server
  bool gpu_to_nic = false;  ///< the same link leads to the NICs, too: PCIe
  std::uint32_t nics = 0;   ///< 0: one server
  double nic = 0;           ///< of one
};

struct NcclGraph {
  std::uint32_t channels = 0;   ///< 0: no heads fit; there is always a ring
  double intra = 0, inter = 0;  ///< GB/s of a channel inside a server, and over the network
};

NcclGraph ring_graph(const NcclLinks& links);
/// Trees have as many channels as rings. @param rings  ring_graph(links)
NcclGraph tree_graph(const NcclLinks& links, const NcclGraph& rings);
/// Heads that reduce in the NVSwitches.
NcclGraph nvls_graph(const NcclLinks& links);
/// CTAs that rings and trees run with where the graph allows.
std::uint32_t ring_channels(const NcclLinks& links, const NcclGraph& rings);

}  // namespace railyard::collective
