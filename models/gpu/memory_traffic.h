// What messages do to the HBM of GPUs: a write is read from memory at its source and written at its destination. A
// message counts with its whole bytes when it is over; from its start it takes bandwidth from the kernels of both GPUs,
// at the rate it has alone and for as long as it takes alone, so that no more than its bytes is taken however long it
// is held up on the way; all of a GPU's messages together, one way, take at most what its ports carry. Not per train:
// two calls and an event a message.
//
// Kernels are told last at an instant, of all its changes together, so that the order in which messages begin and end does not
// show. Messages of a collective that is replayed take what they took when it was simulated. While no kernel runs on a GPU and
// nobody looks at it, nothing is told: the first kernel finds what messages take before its instant.
#pragma once

#include <memory>
#include <vector>

#include "gpu/gpu.h"
#include "transport/device/memory_observer.h"

namespace railyard::transport {
class Fabric;
}

namespace railyard::gpu {

class MemoryTraffic final : public transport::MemoryObserver, private transport::CalendarClient {
 public:
  explicit MemoryTraffic(transport::Fabric& fabric) : fabric_(fabric) {}
  /// @pre the GPU's ports are all there; it outlives this
  void add(Gpu& gpu);

  /// HBM traffic of messages that are over, so far.
  Bytes bytes(const Gpu& gpu) const { return memories_[gpu.window()]->bytes; }

 private:
  /// Bytes per second that messages take.
  struct Load {
    std::uint64_t read = 0, written = 0;
    void add(const transport::MemoryCourse::Step& step) {
      read += static_cast<std::uint64_t>(step.read);
      written += static_cast<std::uint64_t>(step.written);
    }
  };
  /// A course that is replayed, as one memory sees it.
  struct Replay {
    std::shared_ptr<const transport::MemoryCourse> course;
    const std::vector<transport::MemoryCourse::Step>* steps = nullptr;  ///< of the course
    Time from;
    std::size_t next = 0;  ///< step that is not in the load yet
    bool over() const { return next == steps->size(); }
    Time when() const { return from + (*steps)[next].after; }
  };
  struct Memory final : TrafficSource {
    explicit Memory(MemoryTraffic& o) : owner(o) {}
    double on_watched() override { return owner.watched(*this); }
    MemoryTraffic& owner;
    Gpu* gpu = nullptr;
    std::uint64_t ports = 0;  ///< bytes per second, all ports, one way
    Load load, before;        ///< now, and before what has changed at `changed`
    Time changed;
    bool telling = false;          ///< at the end of this instant
    Time next_step = Time::max();  ///< the event of a replay that is pending
    std::vector<Replay> replays;
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
  void keep(const transport::Message& message, Time after, transport::MemoryCourse& course) const override;
  void on_replayed(std::shared_ptr<const transport::MemoryCourse> course) override;
  void on_event(std::uint32_t tag, std::uint64_t data) override;
  void find_parts(const transport::Message& message, std::vector<Part>& parts) const;
  void add_part(std::vector<Part>& parts, transport::Window window, std::uint32_t reads, std::uint32_t writes) const;
  static std::uint64_t rate_of(const transport::Message& message);
  void change(const Demand& demand, bool begins);

  /// Keeps what it was before this instant. @pre its load changes
  void begin_change(Memory& memory);
  static double taken(const Memory& memory, const Load& load);
  /// Takes steps of replays into the load: those before now, or up to now.
  void catch_up(Memory& memory, bool with_now);
  /// Comes back for the next step of a replay, if somebody looks.
  void expect_step(Memory& memory);
  double watched(Memory& memory);
  void tell_last(Memory& memory);
  void tell(Memory& memory);

  transport::Fabric& fabric_;
  std::vector<std::unique_ptr<Memory>> memories_;  ///< by window; null where it is no GPU's
  std::vector<Demand> demands_;
  std::vector<std::uint32_t> free_;
  std::vector<Part> parts_;  ///< of a message that is over, kept to spare allocations
};

}  // namespace railyard::gpu
