// A message: bytes from one memory to another, cut into transactions on the way. Whoever sends it owns its meaning; the
// fabric owns the object from send() until the client has been told.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "base/units.h"
#include "transport/link/counters.h"

namespace railyard::transport {

/// Every memory and every DMA engine has a window of the global address space; switches decode the window.
constexpr unsigned kWindowBits = 40;  // 1 TiB each
using Window = std::uint32_t;
constexpr std::uint64_t window_base(Window window) { return static_cast<std::uint64_t>(window) << kWindowBits; }
constexpr Window window_of(std::uint64_t address) { return static_cast<Window>(address >> kWindowBits); }
/// An address that a network switch decodes: InfiniBand's local identifier of the NIC's port.
using Lid = std::uint32_t;
/// A set of memories that multicasts write and reductions read; Fabric::add_group() makes it.
using GroupId = std::uint32_t;

struct Message;

/// Told when the last byte of a message has landed.
class MessageClient {
 public:
  virtual void on_delivered(Message& message) = 0;
  /// Links were lost, and some of the message's bytes have no way left. Called once, with the first such bytes.
  /// @return whether the run goes on without them; on_undeliverable() follows. False: the run ends here.
  virtual bool on_cut_off(const Message&) { return false; }
  /// Instead of on_delivered(), when all bytes have landed that can. A multicast or a reduction that was cut off does not
  /// get that far: its copies and operands are not counted.
  virtual void on_undeliverable(Message&) {}
  /// What the message is part of, for errors; empty where there is nothing to say.
  virtual std::string name_of(const Message&) const { return {}; }
  /// The last byte has left its source: the engine that wrote it is free. Told of messages with `tell_left` only.
  virtual void on_left(Message&) {}

 protected:
  ~MessageClient() = default;
};

/// Who moves the bytes at the source: it decides the packet size on NVLink.
enum class Engine : std::uint8_t { sm, copy_engine };

/// write: from the source's memory to the destination's. read: the other way, asked by the source. multicast: from the source to
/// every member of the group, itself included if it is one, copied by the switch (NVLS multimem.st). reduce: the switch reads
/// every member of the group and sends one result to the source (NVLS multimem.ld_reduce).
enum class MessageKind : std::uint8_t { write, read, multicast, reduce };
constexpr bool of_group(MessageKind kind) { return kind == MessageKind::multicast || kind == MessageKind::reduce; }

struct Message {
  // Set by the sender.
  Window source = 0;
  Window destination = 0;  ///< of a write, or the memory that a read reads
  GroupId group = 0;       ///< of a multicast or a reduction
  Bytes bytes = 0;         ///< multicast: per member; reduce: of the result; both at least 1
  Bytes offset = 0;        ///< of the first byte in the destination's memory: which stripes it falls on
  std::uint8_t traffic_class = 0;
  std::uint32_t channel =
      0;  ///< below 2^20; messages of one (class, destination, channel) keep their order: a queue pair
  Engine engine = Engine::sm;
  MessageKind kind = MessageKind::write;
  Rate source_rate;  ///< at which the engine writes; zero: as fast as the link takes it
  std::uint32_t source_reads =
      1;                   ///< of a write or multicast: operands read from the source's memory for each byte sent
  bool tell_left = false;  ///< the client wants on_left(), which comes before on_delivered()
  MessageClient* client = nullptr;
  std::uint64_t cookie = 0;  ///< the client's own

  // Kept by the fabric.
  std::uint64_t address = 0;    ///< destination memory; of a multicast or a reduction, the offset alone
  Bytes transaction_bytes = 0;  ///< payload per transaction, fixed at injection
  Bytes landed = 0;
  Bytes to_land = 0;        ///< bytes, times the members of a multicast
  Bytes undeliverable = 0;  ///< of those, what lost links have cut off for good
  Bytes left = 0;           ///< of what tell_left watches
  Time left_at;             ///< tail of the last byte that has left, so far
  Time started;
  Time finished;     ///< tail of the last byte at the destination, so far
  Time uncontended;  ///< what it would take alone
  /// What its transactions waited for, and how long in all, each wait weighted with the share of the message it held up. A
  /// message seldom waits for more than a few ports; of more, those with the least are forgotten.
  struct Wait {
    PortCounters* port = nullptr;
    Time time;
  };
  std::array<Wait, 4> waits{};
  void waited_at(PortCounters& port, Time time);
  /// What tells messages of one source, kind and class apart.
  std::uint32_t target() const { return of_group(kind) ? group : destination; }
  /// What messages of one way have in common.
  std::uint64_t way() const {
    return static_cast<std::uint64_t>(source) << 36 | static_cast<std::uint64_t>(kind) << 32 |
           static_cast<std::uint64_t>(target()) << 8 | static_cast<std::uint64_t>(engine) << 4 | traffic_class;
  }

  Message* next = nullptr;  ///< free list
};

inline void Message::waited_at(PortCounters& port, Time time) {
  Wait* least = &waits[0];
  for (Wait& wait : waits) {
    if (wait.port == &port || wait.port == nullptr) {
      wait.port = &port;
      wait.time += time;
      return;
    }
    if (wait.time < least->time) least = &wait;
  }
  if (least->time < time) *least = {&port, time};
}

}  // namespace railyard::transport
