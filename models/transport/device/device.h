// The room `device` has what exists on the fabric: Device and its ports, Switch and GroupSwitch, Endpoint and Reader,
// and the Calendar, in whose order everything happens. A Message is cut into Transactions from a TransactionPool;
// Routes keeps each Path and its time without contention. Collectives, GPUs and NICs derive from or call these;
// FabricListener and MemoryObserver hear what happens.
//
// A device of the fabric: an SC_MODULE with full-duplex ports. Each port is a TLM initiator socket (transmit), a TLM
// target socket (receive), the state of the port rule and counters. Ports are stored in arrays of the device; they are
// not modules. Sockets are bound to the port itself, so a call from outside reaches its state directly. Switches
// forward what they receive (switch.h); endpoints send and sink messages (endpoint.h).
//
// Transport calls only store and schedule. A transaction is processed when the calendar reports the arrival of its
// head.
#pragma once

#include <memory>
#include <string>
#include <tlm>
#include <vector>

#include "transport/device/calendar.h"
#include "transport/device/ledger.h"
#include "transport/device/listener.h"
#include "transport/device/transaction.h"
#include "transport/link/counters.h"
#include "transport/link/egress_port.h"

namespace railyard::transport {

class Endpoint;
struct FluidPort;

/// Receives bytes of a message that a failed link has lost or cut off, to send them on another path.
class LossObserver {
 public:
  /// @param address  their destination address
  virtual void on_lost(Message& message, std::uint64_t address, Bytes bytes) = 0;
  /// A read request or its response is lost; on_lost() follows. Or a switch's copy or operand is: nobody sends it again.
  virtual void on_read_lost(Transaction& transaction) = 0;

 protected:
  ~LossObserver() = default;
};

/// Keeps data derived from the state of links: routes, rates of paths. Notified after each change.
class LinkObserver {
 public:
  virtual void on_links_changed() = 0;

 protected:
  ~LinkObserver() = default;
};

/// Data that all devices of one fabric share.
struct FabricContext {
  Calendar& calendar;
  TransactionPool& pool;
  MessageLedger& ledger;
  VcPlan plan;
  FabricListener* listener = nullptr;
  LossObserver* losses = nullptr;      ///< null: no link can fail in this run
  std::vector<Endpoint*> endpoints{};  ///< by window; null if a window has no endpoint
  PortKinds kinds{};
  std::vector<std::vector<Window>> groups{};  ///< members, by GroupId
};

class Device : public sc_core::sc_module, protected CalendarClient {
 public:
  static constexpr unsigned kBusWidth = 64;  // a formality of TLM sockets; our payload carries its own size
  using TransmitSocket = tlm::tlm_initiator_socket<kBusWidth, FabricProtocol>;
  using ReceiveSocket = tlm::tlm_target_socket<kBusWidth, FabricProtocol>;

  struct Port final : private tlm::tlm_fw_transport_if<FabricProtocol>,
                      private tlm::tlm_bw_transport_if<FabricProtocol> {
    Port(Device& owner, PortId id, const std::string& name, const LinkDirection& transmit);

    /// Time for which the line was charged until `now`. Charges are contiguous during a backlog, so the part after
    /// `now` is subtracted and busy_until(t) <= t always holds.
    Time busy_until(Time now) const { return counters.busy - since(egress.free(), now) - counters.ahead(now); }

    // Members that every transaction touches come first.
    Device& owner;
    const PortId id;
    std::uint32_t listener_mark = 0;  ///< set by the listener to find its records of this port
    FluidPort* fluid = nullptr;       ///< in fluid fidelity: the streams that share it (fluid/rates.h)
    Rate receive_rate;                ///< line rate of the other direction
    Time wake = Time::max();          ///< the pending wake-up, if any
    EgressPort egress;
    PortCounters counters;
    Time stalled;                        ///< total time with a free line and waiting transactions, but without credit
    PortCounters* held_up_by = nullptr;  ///< the port for which the latest returned credit had waited; null: none
    Device* peer = nullptr;              ///< the connected device, for route walks and names
    PortId peer_port;
    const std::string name;  ///< within the device: "port3", "pcie", "nvlink0"
    TransmitSocket transmit;
    ReceiveSocket receive;

   private:
    friend class Device;
    tlm::tlm_sync_enum nb_transport_fw(Transaction& transaction, Phase& phase, sc_core::sc_time& delay) override;
    tlm::tlm_sync_enum nb_transport_bw(Transaction& transaction, Phase& phase, sc_core::sc_time& delay) override;
    // Other functions of the interfaces, which the fabric does not use.
    void b_transport(Transaction&, sc_core::sc_time&) override;
    bool get_direct_mem_ptr(Transaction&, tlm::tlm_dmi&) override { return false; }
    unsigned transport_dbg(Transaction&) override { return 0; }
    void invalidate_direct_mem_ptr(sc_dt::uint64, sc_dt::uint64) override {}

    // The interfaces to which the sockets are bound, queried once.
    tlm::tlm_fw_nonblocking_transport_if<Transaction, Phase>* forward = nullptr;
    tlm::tlm_bw_nonblocking_transport_if<Transaction, Phase>* backward = nullptr;
  };

  Device(sc_core::sc_module_name name, FabricContext& context);
  ~Device() override = default;

  /// @pre before elaboration ends
  PortId add_port(const std::string& name, const LinkDirection& transmit);
  const Port& port(PortId id) const { return *ports_[id.value()]; }
  Port& port(PortId id) { return *ports_[id.value()]; }
  std::size_t ports() const { return ports_.size(); }

  /// Binds both directions of a link.
  static void connect(Device& a, PortId port_a, Device& b, PortId port_b);
  /// Tells both devices their peers without binding sockets: the caller binds a device in between, such as a monitor.
  static void introduce(Device& a, PortId port_a, Device& b, PortId port_b);

  /// Trains that start on this port from now on use its line at this rate.
  void set_rate(PortId port, Rate rate);
  /// The link fails in the direction in which this port sends. take_back() follows after the routes are updated.
  void fail(PortId id) { port(id).egress.fail(); }
  /// The state of some link has changed: derived data is out of date.
  virtual void links_changed() {}
  /// Handles all that waits for a failed link: finds another path, or gives it up.
  virtual void take_back(PortId out) = 0;

  /// The instant from which no state except that of its ports depends on earlier traffic.
  virtual Time forgets_from() const { return Time(); }

  /// The fronts of all queues with `out` as their egress.
  std::vector<const Transaction*> waiting(PortId out);

  /// The egress that this device's decoder selects for an address from `ingress`; an invalid id: the address is local.
  virtual PortId decode(std::uint64_t address, Lid lid, PortId ingress) const = 0;
  /// True if a transaction may also leave through other ports, chosen at run time.
  virtual bool has_choice(Lid) const { return false; }

  FabricContext& context() const { return context_; }
  /// What decides how this device handles trains at a port, besides its links and its decoder. Two devices of one class
  /// with equal traits handle equal trains alike. Empty: the devices of this class cannot be compared.
  virtual std::vector<std::uint64_t> traits(PortId) const { return {}; }
  /// True if code outside the fabric is called for each transaction; fluid streams would skip these calls.
  virtual bool needs_trains() const { return false; }

 protected:
  // Functions that depend on the kind of device.
  /// Schedules the processing of a received transaction. Called when its head is sent.
  virtual void receive(Transaction& transaction) = 0;
  /// The front transaction of (virtual channel, requester) for an output.
  virtual const Transaction& front(PortId out, std::uint8_t vc, std::uint32_t requester) = 0;
  /// Removes the front; the next transaction of its queue can become a requester.
  virtual Transaction& take(PortId out, std::uint8_t vc, std::uint32_t requester) = 0;
  /// The transaction's tail leaves this device at `leaves`: returns the resources that it held.
  virtual void departed(Transaction& transaction, PortId out, Time leaves) = 0;

  /// A transaction of (virtual channel, requester) is at its front and waits for `out`.
  void request(PortId out, std::uint8_t vc, std::uint32_t requester);
  void serve(PortId out);
  void queued(PortId out, std::int64_t more_bytes);
  /// A transaction begins to wait for a port.
  void waits(Transaction& transaction, PortId out) const {
    transaction.waiting_since = now();
    transaction.stalled_before = port(out).stalled;
    transaction.held_up_bytes = transaction.payload_bytes;
  }
  /// True if this port's link has failed.
  bool lost(PortId out) const { return port(out).egress.failed(); }
  /// Gives up a transaction that holds no resources any more.
  void lose(Transaction& transaction);
  /// Returns the receive buffer's credit for a transaction to the sender at its ingress port.
  void return_credit(Transaction& transaction, Time leaves);

  static constexpr std::uint32_t kWakeTag = 0;
  static constexpr std::uint32_t kArrivalTag = 1;
  static constexpr std::uint32_t kFirstOwnTag = 2;
  void on_event(std::uint32_t tag, std::uint64_t data) override;
  /// Events with tags from kFirstOwnTag on.
  virtual void on_own_event(std::uint32_t tag, std::uint64_t data) = 0;

  void end_of_elaboration() override;

  Time now() const { return context_.calendar.now(); }
  FabricContext& context_;
  std::vector<std::unique_ptr<Port>> ports_;  ///< a port keeps its place: sockets and others refer to it

 private:
  PortCounters* credit_waited_for_ = nullptr;  ///< the port for which the credit being returned has waited
  /// If links can fail, a transaction is received only when its head arrives, because it may never arrive.
  void head_arrived(Transaction& transaction);
  void start(Port& out, Transaction& transaction, std::uint8_t vc);
  /// Tells the client of its message the classes that had the line of a port while it waited.
  void tell_waits(const Transaction& transaction, const PortCounters& port, Time time) const;
  /// Attributes a transaction's wait to ports: time with a busy line to this port, time without credit to the
  /// downstream port for which the credit waited.
  void blame(Port& out, Transaction& transaction, Time line_free, Time owed);
  void wake(Port& out, Time when);
};

/// One direction of a link, identified by its sending port.
struct LinkEnd {
  Device* device = nullptr;
  PortId port;

  Device::Port& state() const { return device->port(port); }
};

}  // namespace railyard::transport
