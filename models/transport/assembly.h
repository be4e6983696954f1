// The fabric, for code that builds or observes it: machines add devices and senders, scenario events change links,
// probes listen, results read totals. Assembly is the only subclass of Fabric. Code that moves bytes uses it as a
// Fabric (fabric.h).
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
  Assembly(const VcPlan& plan, Bytes transaction_bytes);
  ~Assembly();

  // Parts of the fabric.
  /// Passed to the constructor of each device.
  FabricContext& context() { return context_; }
  void add_device(Device& device) { devices_.push_back(&device); }
  void add_sender(Window window, Sender& sender) { routes_.add_sender(window, sender); }
  Routes& routes() { return routes_; }
  /// The router's routes depend on the state of links: it is notified of changes before any device.
  void set_router(LinkObserver* router) { router_ = router; }
  /// Changes of links during the run (faults.h).
  Faults& faults() { return *faults_; }
  /// Fluid fidelity (fluid.h) instead of trains, for all links or for both directions of one link. @pre all devices
  /// exist, nothing has been sent, and no message crosses links of both fidelities
  void model_as_fluid();
  void model_as_fluid(const LinkEnd& link);

  // Observers of the fabric.
  /// There can be several listeners. Call before anything is sent.
  void add_listener(FabricListener& listener);
  /// Ports with a listener_mark are only followed in this interval; without this call, during the whole run.
  void follow_ports(Time from, Time to) {
    ports_followed_from_ = from;
    ports_followed_to_ = to;
  }
  /// The observer of every message, when it begins and when it is over. Null: none.
  void watch_memories(MemoryObserver* memories) { ledger_.watch_memories(memories); }
  /// Enables queries of charged time during the run: replayed recordings then keep their charges by time.
  void follow_charges() { charges_followed_ = true; }
  /// Fluid links charge a message when it has left its source. Call before a query of charged time during the run.
  void charge_until_now();
  /// Checks every step from now on (study/invariants.h). Debug builds check from the start.
  void watch_invariants();
  /// With invariants: checks that nothing is in flight.
  void expect_settled() const;

  // Totals of a run.
  const MessageLedger& ledger() const { return ledger_; }
  /// Bytes that failed links have lost or cut off (recovery.h).
  const Recovery& recovery() const { return *recovery_; }
  /// Transactions started on all ports since the start: the unit of simulation speed.
  std::uint64_t hop_transactions() const;
  /// Transactions of messages that were replayed instead of simulated.
  std::uint64_t replayed_transactions() const { return replayed_; }
  std::size_t transactions_live() const { return pool_.live(); }
  using Fabric::unreturned_credit;

 private:
  void on_links_changed() override;

  LinkObserver* router_ = nullptr;
  std::unique_ptr<Recovery> recovery_;
  std::unique_ptr<Faults> faults_;
  FabricListeners listeners_;
  std::unique_ptr<Invariants> invariants_;  ///< null: not checked
};

}  // namespace railyard::transport
