// A device of the fabric: an SC_MODULE with full-duplex ports. Each port is a TLM initiator socket (transmit), a TLM target
// socket (receive), the port rule's state and its counters, kept in arrays inside the device rather than in modules of
// their own. The port itself is what its sockets are bound to, so that a call from outside lands on the state it is about. Switches forward what they receive (switch.h); endpoints send and sink messages (endpoint.h).
//
// Transport calls only store and schedule; a transaction acts when the calendar says that its head has arrived.
#pragma once

#include <deque>
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

/// Told of bytes of a message that a lost link has taken or cut off, so that they are sent another way.
class LossObserver {
 public:
  /// @param address  where they were to land
  virtual void on_lost(Message& message, std::uint64_t address, Bytes bytes) = 0;
  /// A read request or its response is lost: the reader that asked will get no answer. on_lost() follows.
  virtual void on_read_lost(Transaction& transaction) = 0;

 protected:
  ~LossObserver() = default;
};

/// Knows what is derived from the state of links: routes, rates of paths. Told after each change.
class LinkObserver {
 public:
  virtual void on_links_changed() = 0;

 protected:
  ~LinkObserver() = default;
};

/// What every device of one fabric shares.
struct FabricContext {
  Calendar& calendar;
  TransactionPool& pool;
  MessageLedger& ledger;
  ChannelPlan plan;
  FabricListener* listener = nullptr;
  LossObserver* losses = nullptr;      ///< null: no link is ever lost in this run
  std::vector<Endpoint*> endpoints{};  ///< by window; null where it is nobody's
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

    /// How long the line was charged by `now`. Charges are contiguous while a backlog lasts, so what reaches past now is
    /// taken off, and busy_until(t) <= t always.
    Time busy_until(Time now) const { return counters.busy - since(egress.free(), now) - counters.ahead(now); }

    // What every transaction touches comes first.
    Device& owner;
    const PortId id;
    std::uint32_t listener_mark = 0;  ///< the listener's own, to find its books of this port
    FluidPort* fluid = nullptr;       ///< in fluid fidelity: who shares it (fluid/rates.h)
    Rate receive_rate;                ///< line rate of the other direction
    Time wake = Time::max();          ///< the pending wake-up, if any
    EgressPort egress;
    PortCounters counters;
    Time stalled;                        ///< in all: the line was free, somebody waited, and there was no credit
    PortCounters* held_up_by = nullptr;  ///< whom the latest credit that came home had waited for; null: for nobody
    Device* peer = nullptr;              ///< what it is connected to, for route walks and names
    PortId peer_port;
    const std::string name;  ///< within the device: "port3", "pcie", "nvlink0"
    TransmitSocket transmit;
    ReceiveSocket receive;

   private:
    friend class Device;
    tlm::tlm_sync_enum nb_transport_fw(Transaction& transaction, Phase& phase, sc_core::sc_time& delay) override;
    tlm::tlm_sync_enum nb_transport_bw(Transaction& transaction, Phase& phase, sc_core::sc_time& delay) override;
    // The rest of the interfaces; the fabric has no use for it.
    void b_transport(Transaction&, sc_core::sc_time&) override;
    bool get_direct_mem_ptr(Transaction&, tlm::tlm_dmi&) override { return false; }
    unsigned transport_dbg(Transaction&) override { return 0; }
    void invalidate_direct_mem_ptr(sc_dt::uint64, sc_dt::uint64) override {}

    // What the sockets are bound to, asked once.
    tlm::tlm_fw_nonblocking_transport_if<Transaction, Phase>* forward = nullptr;
    tlm::tlm_bw_nonblocking_transport_if<Transaction, Phase>* backward = nullptr;
  };

  Device(sc_core::sc_module_name name, FabricContext& context);
  ~Device() override = default;

  /// @pre before elaboration ends
  PortId add_port(const std::string& name, const LinkDirection& transmit);
  const Port& port(PortId id) const { return ports_[id.value()]; }
  Port& port(PortId id) { return ports_[id.value()]; }
  std::size_t ports() const { return ports_.size(); }

  /// Binds both directions of a link.
  static void connect(Device& a, PortId port_a, Device& b, PortId port_b);
  /// Tells both ends whom they face, without binding their sockets: the caller binds something in between, as a monitor.
  static void introduce(Device& a, PortId port_a, Device& b, PortId port_b);

  /// Trains that start on this port from now on take its line at this rate.
  void set_rate(PortId port, Rate rate);
  /// The link is lost in the direction in which this port sends. take_back() follows when routes are up to date.
  void fail(PortId port) { ports_[port.value()].egress.fail(); }
  /// The state of some link has changed: what was derived from it is out of date.
  virtual void links_changed() {}
  /// What waits for a lost link: finds another way for it, or gives it up.
  virtual void take_back(PortId out) = 0;

  /// From when on nothing but its ports remembers what it has sent.
  virtual Time forgets_from() const { return Time(); }

  /// The fronts of all queues that want to leave there.
  std::vector<const Transaction*> waiting(PortId out);

  /// Where this device's decoder sends an address that came in at `ingress`; an invalid id: it ends here.
  virtual PortId decode(std::uint64_t address, Lid lid, PortId ingress) const = 0;
  /// Whether a transaction may leave through other ports, too, by what only shows on the way.
  virtual bool has_choice(Lid) const { return false; }

  FabricContext& context() const { return context_; }
  /// Whether somebody outside of the fabric is called for each transaction: fluid streams would call nobody.
  virtual bool needs_trains() const { return false; }

 protected:
  // What kinds of device differ in.
  /// Schedules what a received transaction does here. Called at the time its head is sent.
  virtual void receive(Transaction& transaction) = 0;
  /// The front transaction of (channel, requester) for an output.
  virtual const Transaction& front(PortId out, std::uint8_t channel, std::uint32_t requester) = 0;
  /// Removes it; what follows it in its queue may become a requester.
  virtual Transaction& take(PortId out, std::uint8_t channel, std::uint32_t requester) = 0;
  /// Its tail leaves this device at `leaves`: give back what held it.
  virtual void departed(Transaction& transaction, PortId out, Time leaves) = 0;

  /// A transaction of (channel, requester) is at its front and wants `out`.
  void request(PortId out, std::uint8_t channel, std::uint32_t requester);
  void serve(PortId out);
  void queued(PortId out, std::int64_t more_bytes);
  /// A transaction begins to wait for a port.
  void waits(Transaction& transaction, PortId out) const {
    transaction.waiting_since = now();
    transaction.stalled_before = ports_[out.value()].stalled;
    transaction.held_up_bytes = transaction.payload_bytes;
  }
  /// Nothing leaves there any more.
  bool lost(PortId out) const { return ports_[out.value()].egress.failed(); }
  /// Gives a transaction up that nothing holds any more.
  void lose(Transaction& transaction);
  /// Sends the receive buffer's credit back for a transaction that came in at its ingress port.
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
  std::deque<Port> ports_;

 private:
  PortCounters* credit_waited_for_ = nullptr;  ///< of credit that is returned now
  /// Where links can be lost, a transaction is received when its head is here, for it may never come.
  void head_arrived(Transaction& transaction);
  void start(Port& out, Transaction& transaction, std::uint8_t channel);
  /// Lays a transaction's wait at ports: where the line was busy, at this one; where it stalled for want of credit, at the one
  /// further on that the credit waited for.
  void blame(Port& out, Transaction& transaction, Time line_free, Time owed);
  void wake(Port& out, Time when);
};

/// One direction of a link, named by its sender.
struct LinkEnd {
  Device* device = nullptr;
  PortId port;

  Device::Port& state() const { return device->port(port); }
};

}  // namespace railyard::transport
