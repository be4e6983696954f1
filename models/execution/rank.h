// Who runs jobs: a rank of a workload on its GPU, or a host without one. A rank has as many streams as the workload gives
// it; outputs name them.
#pragma once

#include <cstdint>
#include <deque>
#include <string>

#include "gpu/gpu.h"
#include "gpu/stream.h"

namespace railyard::execution {

class Rank {
 public:
  /// @param group   ranks that are counted together; the key of their rows in outputs
  /// @param number  within the group
  /// @param index   as names of links and waveforms spell the number: "[0][3]"
  /// @param its_gpu null: a host
  Rank(std::string group, std::uint32_t number, std::string index, gpu::Gpu* its_gpu)
      : group(std::move(group)), number(number), index(std::move(index)), gpu(its_gpu) {}

  struct NamedStream {
    std::string name;  ///< "compute"; empty: of no interest to outputs
    gpu::Stream stream;
  };
  /// Streams are numbered in the order in which they are added.
  gpu::Stream& add_stream(std::string name) { return streams.emplace_back(NamedStream{std::move(name), {}}).stream; }
  gpu::Stream& stream(std::size_t which) { return streams[which].stream; }

  const std::string group;
  const std::uint32_t number;
  const std::string index;
  gpu::Gpu* const gpu;
  std::deque<NamedStream> streams;
};

}  // namespace railyard::execution
