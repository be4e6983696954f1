// HBM traffic of messages: a write message is read from the memory of its source and written to the memory of its
// destination.
//
// From its start, a message takes bandwidth from the kernels of both GPUs: at its uncontended rate, for its uncontended
// time. So it takes exactly its own bytes, even if queues delay it. All messages of a GPU together take at most the
// rate of its ports in each direction. The byte counters count a message when it is complete. The cost is two calls and
// one event per message, independent of its trains.
//
// At each instant, kernels see all changes of traffic together, as the last event of the instant, so the order in which
// messages begin and end does not matter. A replayed collective takes the bandwidth that it took when it was simulated.
// While a GPU runs no kernel and has no listener, its SM array gets no updates; the first kernel asks for the traffic
// before its instant.
#pragma once

#include <memory>
#include <unordered_map>
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
  /// @pre all ports of the GPU have been added; the GPU outlives this object
  void add(Gpu& gpu);
  /// The GPU's memory has another window, too.
  void add_window(transport::Window window, const Gpu& gpu) { same_.emplace(window, gpu.window()); }

  /// HBM traffic of all completed messages.
  Bytes bytes(const Gpu& gpu) const { return memories_[gpu.window()]->bytes; }

 private:
  /// Bytes per second of messages.
  struct Load {
    std::uint64_t read = 0, written = 0;
    void add(const transport::MemoryRecording::Step& step) {
      read += static_cast<std::uint64_t>(step.read);
      written += static_cast<std::uint64_t>(step.written);
    }
  };
  /// The part of a replayed recording that concerns one memory.
  struct Replay {
    std::shared_ptr<const transport::MemoryRecording> recording;
    const std::vector<transport::MemoryRecording::Step>* steps = nullptr;  ///< in the recording
    Time from;
    std::size_t next = 0;  ///< first step that the load does not contain yet
    bool over() const { return next == steps->size(); }
    Time when() const { return from + (*steps)[next].after; }
  };
  struct Memory final : TrafficSource {
    explicit Memory(MemoryTraffic& o) : owner(o) {}
    MessageTraffic on_watched() override { return owner.watched(*this); }
    bool is_of_last_replay() const override { return are_over(1); }
    bool is_quiet() const override { return are_over(0); }
    std::uint64_t begun() const override { return messages + replays_begun; }
    /// Whether all messages are over, and all replays but the last ones take nothing from now on.
    bool are_over(std::size_t but_last) const;
    MemoryTraffic& owner;
    Gpu* gpu = nullptr;
    std::uint64_t ports = 0;  ///< bytes per second of all ports, one direction
    Load load, before;        ///< now, and before the changes at the instant `changed`
    Time changed;
    Time next_update =
        Time::max();  ///< the SM array gets the traffic at the end of this instant; max: no update is pending
    std::vector<Replay> replays;
    std::uint64_t messages = 0, messages_over = 0, replays_begun = 0;  ///< messages that are simulated
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
  void keep(const transport::Message& message, Time after, transport::MemoryRecording& recording) const override;
  void on_replayed(std::shared_ptr<const transport::MemoryRecording> recording,
                   const std::vector<transport::Window>& windows) override;
  void on_composed(const transport::MemoryRecording& recording, const std::vector<transport::Window>& windows,
                   std::uint64_t times) override;
  void on_event(std::uint32_t tag, std::uint64_t data) override;
  void find_parts(const transport::Message& message, std::vector<Part>& parts) const;
  void add_part(std::vector<Part>& parts, transport::Window window, std::uint32_t reads, std::uint32_t writes) const;
  static std::uint64_t rate_of(const transport::Message& message);
  void change(const Demand& demand, bool begins);

  /// Keeps the load from before this instant. Call before the load changes.
  void begin_change(Memory& memory);
  static MessageTraffic traffic(const Memory& memory, const Load& load);
  /// Adds the steps of replays to the load: the steps before now, or also those at now.
  void catch_up(Memory& memory, bool with_now);
  /// The SM array gets the traffic at the end of the instant `when`, and of later instants with steps of replays.
  void expect_update(Memory& memory, Time when);
  /// The same, from the next step of a replay on.
  void expect_step(Memory& memory);
  MessageTraffic watched(Memory& memory);
  void update(Memory& memory);

  transport::Fabric& fabric_;
  std::vector<std::unique_ptr<Memory>> memories_;                  ///< by window; null if the window is not a GPU's
  std::unordered_map<transport::Window, transport::Window> same_;  ///< other windows of GPUs
  std::vector<Demand> demands_;
  std::vector<std::uint32_t> free_;
  mutable std::vector<Part> parts_;  ///< scratch space of on_over() and keep(), to avoid allocations
};

}  // namespace railyard::gpu
