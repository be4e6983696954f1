// Which algorithm, protocol and channels a library uses for a collective, and what its steps cost on a GPU.
//
// NCCL: for every algorithm and protocol that the machine allows, time = latency + bytes / bandwidth from the constants of
// its tuner; the shortest wins (NVIDIA/nccl v2.29.2 src/graph/tuning.cc). They were fitted by NCCL's authors to choose with,
// not to predict: what the choice takes, the fabric says. Channels and threads then shrink until each has enough to do
// (src/enqueue.cc). Serving engines have an all-reduce of their own for small vectors inside one server.
#pragma once

#include <optional>

#include "collective/group.h"
#include "collective/spec.h"

namespace railyard::transport {
class Fabric;
}

namespace railyard::collective {

struct Request {
  Operation operation = Operation::all_reduce;
  Bytes bytes = 0;
  std::uint32_t root = 0;
  bool both_directions = false;  ///< of a ring: every other channel runs the other way round
  Library library = Library::nccl;
  std::optional<Algorithm> algorithm;  ///< none: chosen
  std::optional<Protocol> protocol;
  bool in_graph = false;  ///< launched by a CUDA graph instead of from a stream
  std::uint8_t traffic_class = 0;
};

/// What a choice depends on besides the request: how the members reach each other.
struct Site {
  const gpu::GpuDatasheet* gpu = nullptr;  ///< of the members
  std::uint32_t ranks = 1, servers = 1;
  bool nvlink = false;          ///< members of a server reach each other over NVLink
  bool multicast = false;       ///< and their switches copy and reduce
  bool amd_hosts = false;       ///< their servers' CPUs are AMD's
  double network_gb_per_s = 0;  ///< of one NIC
  std::uint32_t nics = 0;       ///< that the members of a server use
};
/// Asks the fabric. @pre the machine is elaborated
Site site_of(const std::vector<gpu::Gpu*>& gpus, const Group& group, const transport::Fabric& fabric);

/// What NCCL plans with, and what it comes to.
struct Plan {
  Algorithm algorithm = Algorithm::ring;
  Protocol protocol = Protocol::simple;
  std::uint32_t channels = 1, threads = 512;
};
/// @param algorithm, protocol  fixed ones; the other is still chosen
Plan nccl_plan(const Site& site, Operation operation, Bytes bytes, std::optional<Algorithm> algorithm,
               std::optional<Protocol> protocol);

/// Everything for Collective::prepare().
CollectiveSpec choose(const Request& request, const Group& group, const Site& site);
/// The least launch of all that it chooses, whatever the operation and the size.
Time least_launch(const Request& request, const Site& site);

}  // namespace railyard::collective
