// The fabric, for code that moves bytes: collectives, workloads, the executor, the memories of GPUs. It tells the time, sends
// messages, and says which path a message takes and how long the message would take alone.
//
// Code that builds or observes a fabric uses the same object through assembly.h. Files of this folder include downwards only,
// in this order: link/, device/, fluid/ and study/, faults.h and recovery.h, quiet_watch.h, fabric.h, assembly.h, edge/.
#pragma once

#include <memory>
#include <vector>

#include "transport/device/routes.h"
#include "transport/quiet_watch.h"

namespace railyard::transport {

class Fluid;

class Fabric {
 public:
  Calendar& calendar() { return calendar_; }
  Time now() const { return calendar_.now(); }

  /// Moves a message from memory to memory; its client is told when the last byte has landed. @return what is under way
  Message& send(const Message& message);
  Path path(Window source, Window destination, std::uint8_t traffic_class, Engine engine = Engine::sm) const {
    return routes_.path(source, destination, traffic_class, engine);
  }
  /// Payload per transaction on this path.
  Bytes transaction_bytes(const Path& path) const { return routes_.transaction_bytes(path); }
  /// What a write takes alone.
  Time uncontended(Window source, Window destination, std::uint8_t traffic_class, Bytes bytes,
                   Engine engine = Engine::sm);

  /// Memories that multicasts write and reductions read, all behind the same switches; at most 2^20 groups.
  GroupId add_group(const std::vector<Window>& members);
  const std::vector<Window>& group(GroupId id) const { return context_.groups[id]; }

  /// Messages whose course is known and was not simulated again, and the transactions they would have taken.
  void replay(std::size_t traffic_class, const ClassTotals& messages, std::uint64_t transactions) {
    ledger_.replay(traffic_class, messages);
    replayed_ += transactions;
  }
  /// Whether courses that are replayed must keep their charges by time.
  bool charges_followed() const { return charges_followed_; }
  /// The observer of the memories that messages use; null: none.
  MemoryObserver* memories() const { return ledger_.memories(); }
  /// In the order in which they were added.
  const std::vector<Device*>& devices() const { return devices_; }
  /// From when on a direction of a link is quiet (quiet_watch.h).
  Time quiet_from(const LinkEnd& link) const { return transport::quiet_from(link, now()); }
  /// Calls on_event(tag, data) of the client at the first instant at which all links are quiet (quiet_watch.h).
  void when_quiet(CalendarClient& client, std::uint32_t tag, std::uint64_t data) {
    quiet_watch_.wait(client, tag, data);
  }

 protected:
  Fabric(const ChannelPlan& plan, Bytes transaction_bytes);
  ~Fabric();
  /// Bytes of credit that have not come home, over all ports and channels; zero when nothing is under way.
  Bytes unreturned_credit() const;

  Calendar calendar_;
  TransactionPool pool_;
  MessageLedger ledger_;
  FabricContext context_;
  Routes routes_;
  std::vector<Device*> devices_;
  QuietWatch quiet_watch_;
  std::unique_ptr<Fluid> fluid_;  ///< null: trains only
  std::uint64_t replayed_ = 0;
  bool charges_followed_ = false;
};

}  // namespace railyard::transport
