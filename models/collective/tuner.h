// Chooses algorithm, protocol and channels of a collective as its library would, and sets the cost of its steps on a
// GPU.
//
// NCCL: for every algorithm and protocol that the machine allows, time = latency + bytes / bandwidth, with the
// constants of NCCL's tuner; the shortest time wins (NVIDIA/nccl v2.29.2 src/graph/tuning.cc). NCCL's authors fitted
// these constants for the choice, not for prediction; the simulated fabric gives the time of the chosen collective.
// Then the numbers of channels and threads shrink until each has enough work (src/enqueue.cc). Serving engines have an
// all-reduce of their own for small vectors inside one server (engine.h).
//
// TransformerEngine's userbuffers: vectors are registered with the switches, so an all-gather is one multicast store of each
// member, and a reduce-scatter one load of a sum, without copies or flags between chunks (NVIDIA/TransformerEngine
// common/comm_gemm_overlap/userbuffers/userbuffers.cu, ..._gpu_mc_ag and ..._gpu_mc_rs_oop).
#pragma once

#include <optional>

#include "base/cpu.h"
#include "collective/engine.h"
#include "collective/group.h"
#include "collective/spec.h"

namespace railyard::transport {
class Fabric;
}

namespace railyard::collective {

struct CollectiveRequest {
  Operation operation = Operation::all_reduce;
  Bytes bytes = 0;
  std::uint32_t root = 0;
  bool both_directions = false;        ///< ring: every second channel runs in the opposite direction
  Engine engine;                       ///< whose kernels run; by default NCCL's
  std::optional<Algorithm> algorithm;  ///< none: the library chooses
  std::optional<Protocol> protocol;
  NcclVersion nccl_version = NcclVersion::v2_29;  ///< of sends and receives
  bool nvls = true;                               ///< the library may reduce in the NVSwitches
  /// All-gathers and reduce-scatters inside a server whose switches multicast run as TransformerEngine's userbuffers.
  bool registered = false;
  std::uint32_t most_channels = 0;  ///< NCCL_MAX_CTAS; 0: no limit
  bool takes_sms = true;            ///< otherwise no kernel stays while messages are under way
  bool in_graph = false;            ///< launched by a CUDA graph instead of from a stream
  std::uint8_t traffic_class = 0;
  std::optional<std::uint16_t> queue_pair_set;  ///< of the communicator (transport/device/queue_pairs.h)
};

/// The other input of a choice: how the members reach each other.
struct Site {
  const gpu::GpuDatasheet* gpu = nullptr;  ///< of the members
  std::uint32_t ranks = 1, servers = 1;
  bool nvlink = false;                  ///< members of a server reach each other over NVLink
  bool multicast = false;               ///< the NVSwitches multicast and reduce, and the library may use it
  std::uint32_t most_channels = 0;      ///< 0: no limit
  Cpu cpu = Cpu::xeon_sapphire_rapids;  ///< of the servers
  std::uint32_t mesh_links = 0;         ///< NVLinks between two members of a server; 0: NVSwitches, or no NVLink
  std::uint32_t heads = 0;              ///< members of a server that send to the network's sums; 0: it does not add
  bool halves = false;                  ///< NVLink joins the members of a server in two groups
  std::uint32_t roots = 0;              ///< most CPUs on the way between two members of a server
  double root_gb_per_s = 0;             ///< raw rate of the links into these CPUs
  double network_gb_per_s = 0;          ///< rate of one NIC
  std::uint32_t nics = 0;               ///< NICs that the members of a server use
};
/// Asks the fabric. @pre the machine is elaborated
Site site_of(const std::vector<gpu::Gpu*>& gpus, const Group& group, const transport::Fabric& fabric);

/// NCCL's choice.
struct NcclPlan {
  Algorithm algorithm = Algorithm::ring;
  Protocol protocol = Protocol::simple;
  std::uint32_t channels = 1, threads = 512;
};
/// Most CTAs of rings and trees: two for each ring that NCCL's search finds, at most those of the datasheet.
std::uint32_t nccl_channels(const Site& site);
/// @param algorithm, protocol  fixed by the caller, or none: NCCL chooses
NcclPlan nccl_plan(const Site& site, Operation operation, Bytes bytes, std::optional<Algorithm> algorithm,
                   std::optional<Protocol> protocol);

/// What NCCL expects a collective of its choice to take. An all-to-all, or a transfer
/// of each member to the next one, takes what the links of a member need.
double planned_s(const Site& site, Operation operation, Bytes bytes);

/// Everything for Collective::prepare().
CollectiveSpec choose(const CollectiveRequest& request, const Group& group, const Site& site);
/// DeepEP's kernels. @param bytes  see deepep.h  @pre deepep_chunks(group.size())
CollectiveSpec choose_tokens(const CollectiveRequest& request, const Site& site, Bytes bytes,
                             const TokenExchange& tokens);
/// The least launch time of choose(), over all operations and sizes.
Time least_launch(const CollectiveRequest& request, const Site& site);

}  // namespace railyard::collective
