// A message: bytes from one memory to another, cut into transactions. The sender defines its meaning. The fabric owns
// the object from send() until the client has been notified.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "base/units.h"
#include "transport/link/counters.h"

namespace railyard::transport {

/// Every memory and every DMA engine has a window of the global address space. Switches decode the window.
constexpr unsigned kWindowBits = 40;  // 1 TiB each
using Window = std::uint32_t;
constexpr std::uint64_t window_base(Window window) { return static_cast<std::uint64_t>(window) << kWindowBits; }
/// Place of a memory's first byte in an interleave of addresses, as another memory sees it. It depends only on the
/// distance between the two, so groups of GPUs that are alike have alike traffic.
constexpr std::uint64_t interleave_base(Window from, Window to, Bytes cycle_bytes) {
  const std::uint64_t distance = to >= from ? (to - from) % cycle_bytes : cycle_bytes - (from - to) % cycle_bytes;
  return window_base(1) % cycle_bytes * distance % cycle_bytes;
}
constexpr Window window_of(std::uint64_t address) { return static_cast<Window>(address >> kWindowBits); }
/// An address that a network switch decodes: InfiniBand's local identifier of the NIC's port.
using Lid = std::uint32_t;
/// A set of memories that multicasts write and reductions read; Fabric::add_group() makes it.
using GroupId = std::uint32_t;

struct Message;

/// Notified when the last byte of a message has arrived.
class MessageClient {
 public:
  virtual void on_delivered(Message& message) = 0;
  /// Links failed, and no path is left for some of the message's bytes. Called once, with the first such bytes.
  /// @return true: the run continues without them, and on_undeliverable() follows. False: the run ends here.
  virtual bool on_cut_off(const Message&) { return false; }
  /// Called instead of on_delivered(), when all deliverable bytes have arrived. Not called for a multicast or a
  /// reduction that was cut off: its copies and operands are not counted.
  virtual void on_undeliverable(Message&) {}
  /// Name of the unit of work that contains the message, for errors; empty if there is none.
  virtual std::string name_of(const Message&) const { return {}; }
  /// The last byte has left its source: the engine that wrote it is free. Only for messages with `tell_left`.
  virtual void on_left(Message&) {}
  /// A part of what it waited for a port, in which other messages of this class had the line. Only for messages with
  /// `tell_waits`, after Fabric::keep_line_users(). The client only takes note.
  virtual void on_waited(const Message&, const PortCounters&, std::uint8_t /*traffic_class*/, Time) {}

 protected:
  ~MessageClient() = default;
};

/// The engine that moves the bytes at the source. It determines the packet size on NVLink.
enum class Engine : std::uint8_t { sm, copy_engine };

/// write: from the source's memory to the destination's. read: in the opposite direction, requested by the source.
/// multicast: from the source to every member of the group, copied by the switch (NVLS multimem.st). A member that is
/// the source gets a copy, too. reduce: the switch reads every member of the group and sends one result to the source
/// (NVLS multimem.ld_reduce).
enum class MessageKind : std::uint8_t { write, read, multicast, reduce };
constexpr bool of_group(MessageKind kind) { return kind == MessageKind::multicast || kind == MessageKind::reduce; }

struct Message {
  // Set by the sender.
  Window source = 0;
  Window destination = 0;  ///< of a write, or the memory that a read reads
  GroupId group = 0;       ///< of a multicast or a reduction
  Bytes bytes = 0;         ///< multicast: per member; reduce: of the result; both at least 1
  Bytes offset = 0;        ///< of the first byte in the destination's memory; determines its memory stripes
  std::uint8_t traffic_class = 0;
  /// Its set and its number there (queue_pairs.h); messages of one (class, destination, queue pair) keep their order.
  std::uint32_t queue_pair = 0;
  Engine engine = Engine::sm;
  MessageKind kind = MessageKind::write;
  Rate source_rate;  ///< rate at which the engine writes; zero: as fast as the link
  std::uint32_t source_reads =
      1;                    ///< of a write or multicast: operands read from the source's memory for each byte sent
  bool tell_left = false;   ///< the client needs on_left(), which comes before on_delivered()
  bool tell_waits = false;  ///< the client needs on_waited()
  MessageClient* client = nullptr;
  std::uint64_t cookie = 0;  ///< defined by the client

  // Set by the fabric.
  std::uint64_t address = 0;    ///< in the destination memory; of a multicast or a reduction, only the offset
  Bytes transaction_bytes = 0;  ///< payload per transaction, fixed at injection
  Bytes landed = 0;
  Bytes to_land = 0;        ///< bytes times the number of members of a multicast
  Bytes undeliverable = 0;  ///< part of these bytes that failed links have cut off permanently
  Bytes left = 0;           ///< bytes that have left the source, for tell_left
  Time left_at;             ///< tail of the latest byte that has left
  Time started;
  Time finished;     ///< tail of the latest byte at the destination
  Time uncontended;  ///< time without contention
  /// The ports for which its transactions waited, and the total time; each wait is weighted with the delayed share of
  /// the message. A message rarely waits for more than a few ports; if there are more, the shortest waits are dropped.
  struct Wait {
    PortCounters* port = nullptr;
    Time time;
  };
  std::array<Wait, 4> waits{};
  void waited_at(PortCounters& port, Time time);
  /// Of a write or a read: the memory whose bytes move, and the memory that receives them.
  Window from() const { return kind == MessageKind::read ? destination : source; }
  Window to() const { return kind == MessageKind::read ? source : destination; }
  /// Distinguishes messages of one source, kind and class.
  std::uint32_t target() const { return of_group(kind) ? group : destination; }
  /// Key of all messages on the same path.
  std::uint64_t path_key() const {
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
