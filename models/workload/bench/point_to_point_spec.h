// workload.kind: p2p, typed and validated: the options of p2pBandwidthLatencyTest and perftest. Plain data; no SystemC.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/units.h"
#include "transport/device/message.h"

namespace railyard::workload::p2p {

enum class Test : std::uint8_t { matrix, h2d, d2h, ib_write_bw, ib_write_lat, ib_read_bw, ib_read_lat };
/// Names in scenarios, in the order of the enumerators.
inline constexpr std::array<const char*, 7> kTestNames{"matrix",       "h2d",        "d2h",        "ib_write_bw",
                                                       "ib_write_lat", "ib_read_bw", "ib_read_lat"};
/// Tests of perftest: a sweep of RDMA messages between two servers.
constexpr bool is_rdma(Test test) { return test >= Test::ib_write_bw; }
constexpr bool is_rdma_read(Test test) { return test == Test::ib_read_bw || test == Test::ib_read_lat; }
constexpr bool is_rdma_bandwidth(Test test) { return test == Test::ib_write_bw || test == Test::ib_read_bw; }
/// The memory that RDMA reads and writes use.
enum class Memory : std::uint8_t { host, gpu };

struct PointToPointSpec {
  Test test = Test::matrix;
  std::vector<std::uint32_t>
      gpus;  ///< counted over all groups, no GPU twice; ib_write: from the first GPU's server to the second GPU's
             ///< server; ib_read: the first GPU's server reads
  transport::Engine engine = transport::Engine::copy_engine;  ///< matrix: copies by SMs or copy engines
  Memory memory = Memory::host;                               ///< ib_write, ib_read
  std::vector<Bytes>
      sizes;  ///< matrix: of the bandwidth tests and of the latency test; ib_write, ib_read: in the order of
              ///< the runs
  std::uint32_t iterations = 1;  ///< copies of a pair; writes or reads of each queue pair
  std::uint32_t queue_pairs = 1;
  std::uint32_t tx_depth = 128;          ///< ib_write_bw: writes of a queue pair in flight
  std::uint32_t outstanding_reads = 16;  ///< ib_read_bw: reads of a queue pair in flight, at most max_qp_rd_atom of the
                                         ///< NIC, which is 16 on mlx5 devices (ibv_devinfo -v)

  /// Most messages of a queue pair in flight.
  std::uint32_t in_flight() const {
    if (!is_rdma_bandwidth(test)) return 1;
    return is_rdma_read(test) ? outstanding_reads : tx_depth;
  }
};

}  // namespace railyard::workload::p2p
