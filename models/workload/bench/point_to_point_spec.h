// workload.kind: p2p, typed and validated: the options of p2pBandwidthLatencyTest and perftest. Plain data; no SystemC.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/units.h"
#include "transport/device/message.h"

namespace railyard::workload::p2p {

enum class Test : std::uint8_t { matrix, h2d, d2h, ib_write_bw, ib_write_lat };
/// In the order of the enumerators, as scenarios spell them.
inline constexpr std::array<const char*, 5> kTestNames{"matrix", "h2d", "d2h", "ib_write_bw", "ib_write_lat"};
/// Whose memory RDMA writes read and write.
enum class Memory : std::uint8_t { host, gpu };

struct PointToPointSpec {
  Test test = Test::matrix;
  std::vector<std::uint32_t>
      gpus;  ///< counted over all groups, none twice; ib_write: from the server of the first to the second's
  transport::Engine engine = transport::Engine::copy_engine;  ///< matrix: who copies
  Memory memory = Memory::host;                               ///< ib_write
  std::vector<Bytes> sizes;      ///< matrix: of the bandwidth tests and of the latency test; ib_write: in order
  std::uint32_t iterations = 1;  ///< copies of a pair; writes of each queue pair
  std::uint32_t queue_pairs = 1;
  std::uint32_t tx_depth = 128;  ///< writes of a queue pair under way
};

}  // namespace railyard::workload::p2p
