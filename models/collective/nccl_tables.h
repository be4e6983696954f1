// NCCL's numbers: those with which it chooses and plans, and those of its transport.
//
// Unless a field says otherwise, a number is NCCL's own (NVIDIA/nccl v2.29.2, the version of the open tables for Hopper and
// Blackwell): src/graph/tuning.cc, src/graph/search.cc, src/enqueue.cc. Its authors fitted them for the choice, not for
// prediction. Those of `fitted` rest on measured rows that they name. A GPU's own steps and rates are in its datasheet
// (gpu::GpuDatasheet::Collective).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "collective/spec.h"
#include "gpu/architecture.h"

namespace railyard::collective {

/// NCCL's generations of GPUs, by compute capability.
enum class NcclGeneration : std::uint8_t { volta, ampere, hopper, blackwell };
/// GPUs of compute capability 8 count as ampere, and so do AMD's: RCCL's tables are not modelled.
NcclGeneration nccl_generation(gpu::Architecture architecture);

struct NcclTables {
  /// A number of each protocol.
  template <class T>
  struct ByProtocol {
    T simple = {}, ll = {}, ll128 = {};

    const T& of(Protocol protocol) const {
      return protocol == Protocol::simple ? simple : protocol == Protocol::ll ? ll : ll128;
    }
  };

  /// A number by the servers over which a communicator extends.
  struct ByServers {
    double one = 0, two = 0, more = 0;

    double of(std::uint32_t servers) const { return servers == 1 ? one : servers == 2 ? two : more; }
  };

  /// Planned latency of a hop.
  struct Hop {
    ByProtocol<double> ring_us, tree_us;
    double nvls_us = 0, nvls_tree_us = 0, collnet_direct_us = 0;
  };

  struct Generation {
    /// GB/s of a channel in the order of the search: inside one server, and over several servers.
    std::vector<double> one_server_speeds, several_servers_speeds;
    double ll_gb_per_s = 0;            ///< most in LL inside a server
    double ring_ll128_gb_per_s = 0;    ///< payload rate of a channel of rings (perChMaxRingLL128Bws)
    ByServers tree_ll128_gb_per_s;     ///< the same of trees
    ByServers tree_gb_per_s;           ///< of a channel of trees
    ByServers nvls_tree_gb_per_s;      ///< of a head
    double nvls_efficiency_ratio = 0;  ///< 0: no reductions in the switches
    double plateau_ratio = 1;          ///< by which the latency of rings over servers counts more (plateau_bytes)
  };

  /// Links by generation of NVLink.
  struct NvLink {
    double planned_gb_per_s = 0, wire_gb_per_s = 0;
  };

  // ---- The choice.
  ByProtocol<double> ring_base_us, tree_base_us;
  Hop nvlink_hop, pcie_hop, network_hop;
  Generation volta, ampere, hopper, blackwell;
  /// Most in LL over servers, on hosts of Intel and others, and of AMD.
  ByServers intel_ll_gb_per_s, amd_ll_gb_per_s;
  double intel_post_us = 0, amd_post_us = 0;  ///< per inner hop of a ring over servers, by the host's CPU
  std::uint32_t simple_posts = 0;             ///< such times in Simple
  Bytes plateau_bytes =
      0;  ///< Simple, rings over servers: from so many bytes per channel and rank on, latency counts more
  double lone_gpu_tree_ratio = 0;  ///< servers with one GPU: it receives from both children of the tree
  /// Correction for the middle of the size range, in which a single tree is slower than its bandwidth: by the whole part of
  /// log2(bytes / 64). Trees use the first tree_sizes entries, in-switch trees all.
  using BySize = std::array<double, 24>;
  ByProtocol<BySize> tree_ratio;
  std::uint32_t tree_sizes = 0;
  double collnet_member_us = 0;          ///< of each further member of a server, twice
  double collnet_from_hopper_ratio = 0;  ///< of the bandwidth, on Hopper and later GPUs
  std::uint32_t collnet_most_gpus = 0;   ///< of a server
  std::uint32_t collnet_threads = 0;
  Bytes collnet_thread_bytes = 0;     ///< per thread and head, for a channel more
  std::array<NvLink, 6> nvlink;       ///< by generation
  NvLink card_nvlink;                 ///< links of GA102 cards
  double amd_sockets_gb_per_s = 0;    ///< between the CPUs of a server
  double intel_sockets_gb_per_s = 0;  ///< before Sapphire Rapids, whose PCIe is of generation 5
  double intel_gen5_sockets_gb_per_s = 0;
  double gen5_root_gb_per_s = 0;     ///< a link of 16 lanes of generation 5 has more than this
  double intel_peer_cost_ratio = 0;  ///< peers below one Intel CPU share their links: it forwards small packets
  ByProtocol<std::uint32_t>
      thread_bytes;  ///< below so many for each thread, channels and threads shrink; LL rings: times ranks
  std::uint32_t least_threads = 0;
  ByProtocol<std::uint32_t> most_threads;  ///< of a CTA
  std::uint32_t blackwell_nvls_tree_channels = 0;
  std::uint32_t most_heads =
      0;  ///< members of a server in an in-switch all-reduce (src/include/device.h, NCCL_MAX_NVLS_ARITY)

  // ---- The search for graphs.
  std::uint32_t most_graph_channels = 0;
  double slowest_gb_per_s = 0;  ///< of the single ring that is used if no speed of the list fits
  double next_speed_ratio =
      0;  ///< after a graph was found, the next speed is tried if it exceeds this share of the found one

  // ---- The transport.
  /// Bytes that a step of one channel moves. Simple: a chunk of ring_slots slots in ring_slices slices, if a ring reduces, scatters
  /// or gathers; otherwise one slot. LL and LL128: the data of one slot.
  ByProtocol<Bytes> slot_bytes;
  std::uint32_t slots = 0;  ///< between two neighbours
  std::uint32_t ring_slots = 0, ring_slices = 0;
  Bytes nvls_chunk_bytes = 0, nvls_tree_far_chunk_bytes = 0;  ///< the latter: nvls_tree from four servers on
  /// Data that a thread moves at once: a line of LL; eight words of LL128 without their flags.
  Bytes ll_line_bytes = 0, ll128_line_bytes = 0;

  /// Sends and receives.
  struct PointToPoint {
    Bytes nvlink_step_bytes = 0;  ///< NCCL_P2P_NVL_CHUNKSIZE
    Bytes other_step_bytes = 0;   ///< NCCL_P2P_PCI_CHUNKSIZE and NCCL_P2P_NET_CHUNKSIZE
    Bytes ll_step_bytes = 0;
    Bytes ll_part_bytes = 0;  ///< NCCL_P2P_LL_THRESHOLD
    std::uint32_t pcie_channels_per_peer = 0, least_network_channels = 0;
    double network_channel_gb_per_s = 0;  ///< NCCL_P2P_PER_CHANNEL_NET_BW
    std::uint32_t receiving_warps = 0;    ///< of the 20 warps of a channel; 10 send (sendrecv.h)
  } point_to_point;

  /// Numbers of this model, fitted to measured rows.
  struct Fitted {
    double proxy_us = 0;             ///< time of a proxy, at each end, to see a slot and post it
    std::uint32_t simple_posts = 0;  ///< posts of a slot in Simple
    /// Proxies of a server, one for each NIC, that share NCCL's most in LL over servers (intel_ll_gb_per_s, amd_ll_gb_per_s).
    std::uint32_t ll_proxies = 1;
    double host_line_ns = 0;  ///< each further line of a step of LL that its receiver polls in host memory
    /// Channels begin together and then drift apart by one action in so many, up to their slots.
    std::uint64_t actions_to_drift_one = 1;
  } fitted;

  const Generation& of(NcclGeneration generation) const {
    switch (generation) {
      case NcclGeneration::volta: return volta;
      case NcclGeneration::hopper: return hopper;
      case NcclGeneration::blackwell: return blackwell;
      default: return ampere;
    }
  }
};

const NcclTables& nccl_tables();

/// How a version chooses the protocol of sends and receives.
struct NcclMessageRules {
  /// Before 2.29 the protocol comes first and by the whole message; parts in LL are then smaller. Later: by the part.
  bool by_message = false;
  bool counts_channels = false;  ///< by_message: the threshold of LL counts for each channel
};
NcclMessageRules rules_of(NcclVersion version);

}  // namespace railyard::collective
