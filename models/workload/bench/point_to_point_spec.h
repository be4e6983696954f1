// workload.kind: p2p, typed and validated: the options of p2pBandwidthLatencyTest and perftest. Plain data; no SystemC.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/units.h"
#include "transport/device/message.h"

namespace railyard::workload::p2p {

enum class Test : std::uint8_t { matrix, h2d, d2h, ib_write_bw, ib_write_lat };
/// Names in scenarios, in the order of the enumerators.
inline constexpr std::array<const char*, 5> kTestNames{"matrix", "h2d", "d2h", "ib_write_bw", "ib_write_lat"};
/// The memory that RDMA writes read and write.
enum class Memory : std::uint8_t { host, gpu };

struct PointToPointSpec {
  Test test = Test::matrix;
  std::vector<std::uint32_t>
      gpus;  ///< counted over all groups, no GPU twice; ib_write: from the first GPU's server to the second GPU's
             ///< server
  transport::Engine engine = transport::Engine::copy_engine;  ///< matrix: copies by SMs or copy engines
  Memory memory = Memory::host;                               ///< ib_write
  std::vector<Bytes> sizes;      ///< matrix: of the bandwidth tests and of the latency test; ib_write: in the order of
                                 ///< the runs
  std::uint32_t iterations = 1;  ///< copies of a pair; writes of each queue pair
  std::uint32_t queue_pairs = 1;
  std::uint32_t tx_depth = 128;  ///< writes of a queue pair in flight
};

}  // namespace railyard::workload::p2p
