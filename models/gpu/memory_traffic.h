// What messages do to the HBM of GPUs: a write is read from memory at its source and written at its destination. A message
// counts with its whole bytes when it is over; while it is under way it takes bandwidth from the kernels of both GPUs at the
// rate it has alone, and all of a GPU's messages together, one way, at most what its ports carry. Not per train: two calls a
// message.
#pragma once

#include <vector>

#include "gpu/gpu.h"
#include "transport/memory_observer.h"

namespace railyard::gpu {

class MemoryTraffic final : public transport::MemoryObserver {
 public:
  explicit MemoryTraffic(const transport::Fabric& fabric) : fabric_(fabric) {}
  /// @pre the GPU's ports are all there
  void add(Gpu& gpu);

  /// HBM traffic of messages that are over, so far.
  Bytes bytes(const Gpu& gpu) const { return memories_[gpu.window()].bytes; }

 private:
  struct Memory {
    Gpu* gpu = nullptr;
    std::uint64_t ports = 0;            ///< bytes per second, all ports, one way
    std::uint64_t read = 0, written = 0;  ///< bytes per second that messages under way would take alone
    Bytes bytes = 0;
  };

  void on_begun(const transport::Message& message) override { change(message, true); }
  void on_over(const transport::Message& message) override { change(message, false); }
  void on_replayed(transport::Window window, Bytes bytes) override { memories_[window].bytes += bytes; }
  void change(const transport::Message& message, bool begins);
  void change(transport::Window window, const transport::Message& message, std::uint32_t reads, std::uint32_t writes, bool begins);

  const transport::Fabric& fabric_;
  std::vector<Memory> memories_;  ///< by window
};

}  // namespace railyard::gpu
