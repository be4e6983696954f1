// The fabric: one calendar, one pool of transactions, every device, and the one way to move bytes: send(message).
// Senders (GPUs) are registered by the window of their memory.
#pragma once

#include <memory>
#include <vector>

#include "transport/device/routes.h"
#include "transport/faults.h"
#include "transport/fluid/fluid.h"
#include "transport/recovery.h"
#include "transport/study/invariants.h"

namespace railyard::transport {

class Fabric : private LinkObserver {
 public:
  /// @param transaction_bytes  payload per transaction; 0: automatic, by path
  Fabric(const ChannelPlan& plan, Bytes transaction_bytes);

  FabricContext& context() { return context_; }
  Calendar& calendar() { return calendar_; }
  Time now() const { return calendar_.now(); }

  void add_sender(Window window, Sender& sender) { routes_.add_sender(window, sender); }
  Routes& routes() { return routes_; }
  void add_device(Device& device) { devices_.push_back(&device); }
  /// Memories that multicasts write and reductions read, all behind the same switches; at most 2^20 groups.
  GroupId add_group(const std::vector<Window>& members);
  const std::vector<Window>& group(GroupId id) const { return context_.groups[id]; }
  /// Told of every message, once it begins and once it is over.
  void watch_memories(MemoryObserver* memories) { ledger_.watch_memories(memories); }
  /// Null: nobody.
  MemoryObserver* memories() const { return ledger_.memories(); }
  const std::vector<Device*>& devices() const { return devices_; }
  /// Fluid fidelity (fluid.h) instead of trains, for all links or for both directions of one. @pre all devices are there, nothing
  /// has been sent, and no message crosses links of both fidelities
  void model_as_fluid();
  void model_as_fluid(const LinkEnd& link);
  /// Several may listen. Before anything is sent.
  void add_listener(FabricListener& listener);
  /// From here on every step is checked (invariants.h). Debug builds do so from the start.
  void watch_invariants();
  /// Where invariants are watched: nothing may be under way.
  void expect_settled() const;

  /// Moves a message from memory to memory; its client is told when the last byte has landed. @return what is under way
  Message& send(const Message& message);
  Path path(Window source, Window destination, std::uint8_t traffic_class, Engine engine = Engine::sm) const {
    return routes_.path(source, destination, traffic_class, engine);
  }
  Bytes transaction_bytes(const Path& path) const { return routes_.transaction_bytes(path); }
  /// What a write takes alone.
  Time uncontended(Window source, Window destination, std::uint8_t traffic_class, Bytes bytes,
                   Engine engine = Engine::sm);

  /// Changes of links during the run.
  Faults& faults() { return faults_; }
  /// Whose routes depend on which links there are: told of changes before any device is.
  void set_router(LinkObserver* router) { router_ = router; }
  const Recovery& recovery() const { return recovery_; }

  const MessageLedger& ledger() const { return ledger_; }
  /// Messages whose course is known and was not simulated again, and the transactions they would have taken.
  void replay(std::size_t traffic_class, const ClassTotals& messages, std::uint64_t transactions) {
    ledger_.replay(traffic_class, messages);
    replayed_ += transactions;
  }
  std::uint64_t replayed_transactions() const { return replayed_; }
  /// Somebody asks during the run how long links were charged: courses that are replayed keep their charges by time.
  void follow_charges() { charges_followed_ = true; }
  bool charges_followed() const { return charges_followed_; }
  std::size_t transactions_live() const { return pool_.live(); }
  /// Transactions started on any port since the start: the unit of simulation speed.
  std::uint64_t hop_transactions() const;
  /// Bytes of credit that have not come home, over all ports and channels; zero when nothing is under way.
  Bytes unreturned_credit() const;

 private:
  void on_links_changed() override;

  Calendar calendar_;
  TransactionPool pool_;
  MessageLedger ledger_;
  FabricContext context_;
  Routes routes_;
  std::uint64_t replayed_ = 0;
  bool charges_followed_ = false;
  std::vector<Device*> devices_;
  LinkObserver* router_ = nullptr;
  Recovery recovery_;
  Faults faults_;
  std::unique_ptr<Fluid> fluid_;  ///< null: trains only
  FabricListeners listeners_;
  std::unique_ptr<Invariants> invariants_;
};

}  // namespace railyard::transport
