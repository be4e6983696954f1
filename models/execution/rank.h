// A rank of a workload runs jobs on its GPU. A rank without a GPU is a host. A rank has as many streams as the workload
// gives it; outputs name them.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "gpu/gpu.h"
#include "gpu/stream.h"

namespace railyard::execution {

class Rank {
 public:
  /// @param group   ranks that are counted together; the key of their rows in outputs
  /// @param number  within the group
  /// @param index   the number as spelled in names of links and waveforms: "[0][3]"
  Rank(std::string group, std::uint32_t number, std::string index, gpu::Gpu& its_gpu)
      : group(std::move(group)), number(number), index(std::move(index)), gpu(&its_gpu), memory(its_gpu.window()) {}
  /// @param memory  of a host; none: the host sends no bytes
  Rank(std::string group, std::uint32_t number, std::string index, std::optional<transport::Window> memory)
      : group(std::move(group)), number(number), index(std::move(index)), memory(memory) {}

  struct NamedStream {
    std::string name;  ///< "compute"; empty: not shown in outputs
    gpu::Stream stream;
  };
  /// Streams are numbered in the order in which they are added.
  gpu::Stream& add_stream(std::string name) { return streams.emplace_back(NamedStream{std::move(name), {}}).stream; }
  gpu::Stream& stream(std::size_t which) { return streams[which].stream; }

  const std::string group;
  const std::uint32_t number;
  const std::string index;
  gpu::Gpu* const gpu = nullptr;  ///< null: a host
  const std::optional<transport::Window> memory;
  std::deque<NamedStream> streams;
};

}  // namespace railyard::execution
