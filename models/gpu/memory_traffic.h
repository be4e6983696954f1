// What messages do to the HBM of GPUs: a write is read from memory at its source and written at its destination. A
// message counts with its whole bytes when it is over; from its start it takes bandwidth from the kernels of both GPUs,
// at the rate it has alone and for as long as it takes alone, so that no more than its bytes is taken however long it
// is held up on the way; all of a GPU's messages together, one way, take at most what its ports carry. Not per train:
// two calls and an event a message.
#pragma once

#include <vector>

#include "gpu/gpu.h"
#include "transport/memory_observer.h"

namespace railyard::gpu {

class MemoryTraffic final : public transport::MemoryObserver, private transport::CalendarClient {
 public:
  explicit MemoryTraffic(transport::Fabric& fabric) : fabric_(fabric) {}
  /// @pre the GPU's ports are all there
  void add(Gpu& gpu);

  /// HBM traffic of messages that are over, so far.
  Bytes bytes(const Gpu& gpu) const { return memories_[gpu.window()].bytes; }

 private:
  struct Memory {
    Gpu* gpu = nullptr;
    std::uint64_t ports = 0;              ///< bytes per second, all ports, one way
    std::uint64_t read = 0, written = 0;  ///< bytes per second that messages take
    Bytes bytes = 0;
  };
  /// How often each byte of a message is read and written in one memory.
  struct Part {
    transport::Window window = 0;
    std::uint32_t reads = 0, writes = 0;
  };
  struct Demand {
    std::vector<Part> parts;
    std::uint64_t rate = 0;  ///< bytes per second
  };

  void on_begun(const transport::Message& message) override;
  void on_over(const transport::Message& message) override;
  void on_replayed(transport::Window window, Bytes bytes) override { memories_[window].bytes += bytes; }
  void on_event(std::uint32_t, std::uint64_t demand) override;
  void find_parts(const transport::Message& message, std::vector<Part>& parts) const;
  void add_part(std::vector<Part>& parts, transport::Window window, std::uint32_t reads, std::uint32_t writes) const;
  void change(const Demand& demand, bool begins);

  transport::Fabric& fabric_;
  std::vector<Memory> memories_;  ///< by window
  std::vector<Demand> demands_;
  std::vector<std::uint32_t> free_;
  std::vector<Part> parts_;  ///< of a message that is over, kept to spare allocations
};

}  // namespace railyard::gpu
