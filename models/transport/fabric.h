// The room `transport` moves messages between memories, and knows no GPU and no protocol by name. Fabric is its face
// for code that moves bytes, Assembly for code that builds or observes. Inside: `link` has the port rule, `device`
// switches, endpoints and transactions, `fluid` links as rates, `study` costs of messages and invariants, `edge` an
// adapter for TLM-2.0; Faults and Recovery handle lost links, QuietWatch the end of a replay.
//
// The fabric, for code that moves bytes: collectives, workloads, the executor, the memories of GPUs. Fabric gives the
// time, sends messages, and returns the path of a message and its time without contention.
//
// Code that builds or observes a fabric uses the same object through assembly.h. Files of this folder include only
// downwards, in this order: link/, device/, fluid/ and study/, faults.h and recovery.h, quiet_watch.h and horizon.h, fabric.h,
// assembly.h, edge/.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "transport/device/queue_pairs.h"
#include "transport/device/routes.h"
#include "transport/fluid/stream_key.h"
#include "transport/quiet_watch.h"

namespace railyard::transport {

class Fluid;

class Fabric {
 public:
  Calendar& calendar() { return calendar_; }
  Time now() const { return calendar_.now(); }

  /// Moves a message from memory to memory; its client is notified when the last byte has arrived. @return the message
  /// in flight
  Message& send(const Message& message);
  Path path(Window source, Window destination, std::uint8_t traffic_class, Engine engine = Engine::sm) const {
    return routes_.path(source, destination, traffic_class, engine);
  }
  Path path_of(const Message& message) const { return routes_.path_of(message); }
  /// Payload per transaction on this path.
  Bytes transaction_bytes(const Path& path) const { return routes_.transaction_bytes(path); }
  /// Time of a message without contention.
  Time uncontended(const Message& message) { return routes_.uncontended(message); }
  /// Of a write.
  Time uncontended(Window source, Window destination, std::uint8_t traffic_class, Bytes bytes,
                   Engine engine = Engine::sm);

  /// Memories that multicasts write and reductions read, all connected to the same switches; at most 2^20 groups.
  GroupId add_group(const std::vector<Window>& members);
  const std::vector<Window>& group(GroupId id) const { return context_.groups[id]; }

  /// The fluid streams of these sources that have sent messages at or after this instant, in the order in which ports serve
  /// streams that are otherwise equal.
  std::vector<FluidStreamKey> streams_since(const std::vector<Window>& sources, Time since) const;
  /// The place of a fluid stream in this order; none: it has not sent yet.
  std::optional<std::uint32_t> stream_number(const FluidStreamKey& key) const;

  /// From now on, ports remember whose trains had their lines (Message::tell_waits).
  void keep_line_users();

  /// The set of queue pairs of a communicator (queue_pairs.h).
  std::uint16_t queue_pair_set(std::uint8_t traffic_class, std::vector<std::uint64_t> members, std::uint32_t instance) {
    return queue_pair_sets_.set_of(traffic_class, std::move(members), instance);
  }

  /// Counts messages that are replayed instead of simulated, and the transactions that a simulation would have taken.
  void replay(std::size_t traffic_class, const ClassTotals& messages, std::uint64_t transactions) {
    ledger_.replay(traffic_class, messages);
    replayed_ += transactions;
  }
  /// Null: nobody listens.
  FabricListener* listener() const { return context_.listener; }
  /// True if a listener follows single ports (Device::Port::listener_mark) at some time in this interval.
  bool ports_followed(Time from, Time until) const {
    return from <= ports_followed_to_ && until >= ports_followed_from_;
  }
  /// True if replayed recordings must keep their charges by time.
  bool charges_followed() const { return charges_followed_; }
  /// The observer of the memories that messages use; null: none.
  MemoryObserver* memories() const { return ledger_.memories(); }
  /// Devices in the order in which they were added.
  const std::vector<Device*>& devices() const { return devices_; }
  /// From when on a direction of a link is quiet (quiet_watch.h).
  Time quiet_from(const LinkEnd& link) const { return transport::quiet_from(link, now()); }
  /// Calls on_event(tag, data) of the client at the first instant at which all links are quiet (quiet_watch.h).
  void when_quiet(CalendarClient& client, std::uint32_t tag, std::uint64_t data) {
    quiet_watch_.wait(client, tag, data);
  }

 protected:
  Fabric(const VcPlan& plan, Bytes transaction_bytes);
  ~Fabric();
  /// Bytes of credit that have not been returned, over all ports and virtual channels; zero if nothing is in flight.
  Bytes unreturned_credit() const;

  Calendar calendar_;
  TransactionPool pool_;
  MessageLedger ledger_;
  FabricContext context_;
  Routes routes_;
  std::vector<Device*> devices_;
  QuietWatch quiet_watch_;
  QueuePairSets queue_pair_sets_;
  std::deque<LineUsers> line_users_;
  std::unique_ptr<Fluid> fluid_;  ///< null: trains only
  std::uint64_t replayed_ = 0;
  bool charges_followed_ = false;
  Time ports_followed_from_, ports_followed_to_ = Time::max();
};

}  // namespace railyard::transport
