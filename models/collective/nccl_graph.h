// The graphs that NCCL plans with: how many rings, trees or in-switch heads share the links of a server, and the rate
// of each.
//
// NCCL has a list of speeds per generation of GPU (nccl_tables.h). It picks the speed with the largest product of speed and number of
// channels that fit the links at this speed. Then it gives slow graphs more channels or a higher speed inside the
// server (NVIDIA/nccl v2.29.2 src/graph/search.cc). The number of CTAs follows from the result (src/graph/connect.cc).
#pragma once

#include <cstdint>

#include "collective/nccl_tables.h"

namespace railyard::collective {

/// The links of a server that a search divides among channels, in GB/s as NCCL counts them.
struct NcclLinks {
  NcclGeneration generation = NcclGeneration::ampere;
  std::uint32_t gpus = 1;   ///< participating GPUs of the server
  double gpu = 0;           ///< rate from a GPU to the other GPUs of its server
  std::uint32_t least = 1;  ///< fewest rings: 2 if NVLink joins the GPUs of a server in two halves
  bool gpu_to_nic = false;  ///< the same link also leads to the NICs: PCIe
  std::uint32_t nics = 0;   ///< 0: one server
  double nic = 0;           ///< rate of one NIC
  double pcie = 0;          ///< rate of a GPU's link to its NICs
};

struct NcclGraph {
  std::uint32_t channels = 0;   ///< 0: no in-switch heads fit; rings always have at least one channel
  double intra = 0, inter = 0;  ///< GB/s of a channel inside a server, and over the network
};

NcclGraph ring_graph(const NcclLinks& links);
/// Trees have as many channels as rings. @param rings  ring_graph(links)
NcclGraph tree_graph(const NcclLinks& links, const NcclGraph& rings);
/// Channels are heads that reduce in the NVSwitches.
NcclGraph nvls_graph(const NcclLinks& links);
/// Channels are `heads` members that send to the sums of the network.
NcclGraph collnet_graph(const NcclLinks& links, std::uint32_t heads);
/// Number of CTAs of rings and trees that follows from the graph.
std::uint32_t ring_channels(const NcclLinks& links, const NcclGraph& rings);

}  // namespace railyard::collective
