// A device at the edge of the fabric: it injects messages, cut into transactions only when their turn comes, and sinks what
// arrives. Its requesters are ordered queues (a queue pair, a copy engine, a channel): one per (class, destination, channel)
// and port, so that a small message on a channel of its own waits for one train of a bulk one, not for the bulk.
#pragma once

#include <array>
#include <unordered_map>
#include <vector>

#include "transport/device/device.h"
#include "transport/link/meter.h"
#include "transport/link/ring.h"

namespace railyard::transport {

class Endpoint : public Device {
 public:
  Endpoint(sc_core::sc_module_name name, FabricContext& context, Window window);

  Window window() const { return window_; }
  /// Whether others may read and write its window.
  virtual bool is_memory() const { return true; }
  /// From a read request's arrival to its response: what a memory takes.
  virtual Time read_latency() const { return Time(); }
  /// Payload per completion packet of this memory; 0: as the link packs them.
  virtual Bytes completion_payload_bytes() const { return 0; }
  PortId decode(std::uint64_t address, Lid lid, PortId ingress) const override;
  /// What waits for a lost link is given up: its source sends it another way.
  void take_back(PortId out) override;
  Time forgets_from() const override { return metered_until_; }
  /// Tells the client at the message's end that all that can land of it has.
  void complete(Message& message);
  /// A read that this endpoint asked for will not be answered.
  virtual void read_lost(Transaction&) {}

 protected:
  /// The bytes of a message that leave through one port.
  struct Part {
    Message* message = nullptr;
    Bytes bytes = 0;        ///< not cut yet
    Bytes whole_bytes = 0;  ///< when it was injected
    Time stalled_before;    ///< what the port had stalled by then
    std::uint64_t address = 0;
    Lid lid = 0;
    Operation operation = Operation::write;
    std::uint64_t reply_to = 0;
    GroupId group = 0;
    Bytes engine_payload_bytes = 0;
    Meter* meter = nullptr;  ///< that its bytes wait for and are counted by, if any
    Time metered;            ///< by then the meter has counted what is cut
    Rate rate;               ///< at which the source writes it; zero: as fast as the link takes it
    Time written;            ///< by then the source has written what is cut
    bool first = true;
  };

  /// The part that is all of a message. @pre its address is set
  Part whole_of(Message& message) const;
  /// Queues a part behind what its requester has; `transaction_bytes` is the message's.
  void inject(PortId out, const Part& part);
  /// A requester of the device's own at a port, for responses and forwarded transactions.
  std::uint32_t add_requester(PortId out);
  void enqueue(PortId out, std::uint32_t requester, Transaction& transaction);
  /// A transaction is given up that waited, or was to wait, for a lost link.
  virtual void cut_off(Transaction& transaction, PortId out);
  /// Lands the bytes of a write in this endpoint's memory and tells the message's client at its last tail.
  void land(Transaction& transaction);
  /// A read or reduce request: this endpoint's memory answers after read_latency(), on the port it came in by.
  void respond(Transaction& transaction);
  /// The answer to a request is ready to leave through its egress; nothing holds the request any more.
  void answer(Transaction& transaction);

  /// A memory: answers requests, lands everything else.
  void receive(Transaction& transaction) override;
  const Transaction& front(PortId out, std::uint8_t channel, std::uint32_t requester) override;
  Transaction& take(PortId out, std::uint8_t channel, std::uint32_t requester) override;
  void departed(Transaction& transaction, PortId out, Time leaves) override;
  void on_own_event(std::uint32_t tag, std::uint64_t data) override;

  static constexpr std::uint32_t kDeliveredTag = kFirstOwnTag;
  static constexpr std::uint32_t kLeftTag = kFirstOwnTag + 1;
  static constexpr std::uint32_t kWrittenTag = kFirstOwnTag + 2;
  static constexpr std::uint32_t kRespondTag = kFirstOwnTag + 3;
  static constexpr std::uint32_t kFirstEndpointTag = kFirstOwnTag + 4;

  /// Number of the requester of a message at a port, made when first seen.
  std::uint32_t requester_of(PortId out, const Message& message);

 private:
  static constexpr std::uint32_t kNobody = 0xffffffffu;
  struct Requester {
    TransactionQueue ready;  ///< the front is the only one the port sees
    Ring<Part> parts;        ///< not yet cut
    Time last_left;          ///< when the tail of the last one taken left: the next waits from then on
  };
  struct Outlet {
    std::vector<Requester> requesters;
    std::uint64_t latest_key = 0;  ///< the one looked up last and its number
    std::uint32_t latest = kNobody;
    std::uint32_t taken = kNobody;                         ///< requester of the transaction just taken
    std::array<std::uint32_t, kClassChannels> responders;  ///< by response channel
    std::unordered_map<std::uint64_t, std::uint32_t> by_key;
    Outlet() { responders.fill(kNobody); }
  };
  Outlet& outlet(PortId out);
  /// Cuts the next transaction of a requester that has none ready; false when it has no bytes left.
  bool stage(PortId out, Requester& requester);
  /// Puts a staged transaction's head where its part's meter is free, and lays the wait there.
  void wait_for_meter(Part& part, Transaction& transaction);
  /// Asks for the port, at once or when the source has begun to write what is staged.
  void request_staged(PortId out, std::uint32_t number);
  /// Counts what of a message has left its source.
  void count_left(Message& message, Bytes bytes, Time leaves);

  Window window_;
  Time metered_until_;
  std::vector<Outlet> outlets_;
};

}  // namespace railyard::transport
