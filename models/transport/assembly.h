// The fabric, for code that builds or observes it: machines add devices and senders, scenario events change links, probes
// listen, results read totals. It is the only kind of Fabric there is; code that moves bytes gets it as a Fabric (fabric.h).
#pragma once

#include <memory>
#include <vector>

#include "transport/fabric.h"

namespace railyard::transport {

class Faults;
class Invariants;
class Recovery;

class Assembly final : public Fabric, private LinkObserver {
 public:
  /// @param transaction_bytes  payload per transaction; 0: automatic, by path
  Assembly(const ChannelPlan& plan, Bytes transaction_bytes);
  ~Assembly();

  // What it is built of.
  /// Each of its devices is constructed with it.
  FabricContext& context() { return context_; }
  void add_device(Device& device) { devices_.push_back(&device); }
  void add_sender(Window window, Sender& sender) { routes_.add_sender(window, sender); }
  Routes& routes() { return routes_; }
  /// Whose routes depend on which links there are: told of changes before any device is.
  void set_router(LinkObserver* router) { router_ = router; }
  /// Changes of links during the run (faults.h).
  Faults& faults() { return *faults_; }
  /// Fluid fidelity (fluid.h) instead of trains, for all links or for both directions of one. @pre all devices are there,
  /// nothing has been sent, and no message crosses links of both fidelities
  void model_as_fluid();
  void model_as_fluid(const LinkEnd& link);

  // Who observes it.
  /// Several may listen. Before anything is sent.
  void add_listener(FabricListener& listener);
  /// Told of every message, once it begins and once it is over. Null: nobody.
  void watch_memories(MemoryObserver* memories) { ledger_.watch_memories(memories); }
  /// Somebody asks during the run how long links were charged: courses that are replayed keep their charges by time.
  void follow_charges() { charges_followed_ = true; }
  /// From here on every step is checked (study/invariants.h). Debug builds do so from the start.
  void watch_invariants();
  /// Where invariants are watched: nothing may be under way.
  void expect_settled() const;

  // What a run adds up to.
  const MessageLedger& ledger() const { return ledger_; }
  /// What lost links have cut off (recovery.h).
  const Recovery& recovery() const { return *recovery_; }
  /// Transactions started on any port since the start: the unit of simulation speed.
  std::uint64_t hop_transactions() const;
  /// Transactions of messages that were not simulated again.
  std::uint64_t replayed_transactions() const { return replayed_; }
  std::size_t transactions_live() const { return pool_.live(); }
  using Fabric::unreturned_credit;

 private:
  void on_links_changed() override;

  LinkObserver* router_ = nullptr;
  std::unique_ptr<Recovery> recovery_;
  std::unique_ptr<Faults> faults_;
  FabricListeners listeners_;
  std::unique_ptr<Invariants> invariants_;  ///< null: not watched
};

}  // namespace railyard::transport
