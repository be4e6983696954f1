// A device at the edge of the fabric. It injects messages, which are cut into transactions only when their turn comes,
// and sinks arriving transactions. Its requesters are ordered queues (a queue pair, a copy engine): one per
// (class, destination, queue pair) and port. A small message on its own queue pair waits for one train of a bulk
// message, not for the whole message.
#pragma once

#include <array>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "transport/device/device.h"
#include "transport/link/meter.h"
#include "transport/link/ring.h"

namespace railyard::transport {

/// What an ordered queue at a port of an endpoint is for: messages of one kind, class and queue pair from one memory to
/// one target, or work of the endpoint itself, such as answers to reads.
struct RequesterKey {
  bool own = true;
  MessageKind kind = MessageKind::write;
  std::uint8_t traffic_class = 0;
  Window source = 0;
  std::uint32_t target = 0;  ///< a memory or a group, by kind
  std::uint32_t queue = 0;   ///< of messages: their queue pair; of answers: their virtual channel

  bool operator==(const RequesterKey& o) const {
    return std::tie(own, kind, traffic_class, source, target, queue) ==
           std::tie(o.own, o.kind, o.traffic_class, o.source, o.target, o.queue);
  }
};

struct RequesterKeyHash {
  std::size_t operator()(const RequesterKey& key) const {
    const std::uint64_t path =
        static_cast<std::uint64_t>(key.source) << 48 ^ static_cast<std::uint64_t>(key.target) << 28 ^
        static_cast<std::uint64_t>(key.traffic_class) << 24 ^ static_cast<std::uint64_t>(key.kind) << 20;
    return static_cast<std::size_t>((path ^ key.queue) * 0x9e3779b97f4a7c15ull >> 5);
  }
};

class Endpoint : public Device {
 public:
  Endpoint(sc_core::sc_module_name name, FabricContext& context, Window window);

  Window window() const { return window_; }
  /// True if other devices can read and write its window.
  virtual bool is_memory() const { return true; }
  /// Time of a memory from a read request's arrival to its response.
  virtual Time read_latency() const { return Time(); }
  /// Payload per completion packet of this memory; 0: the link's value.
  virtual Bytes completion_payload_bytes() const { return 0; }
  PortId decode(std::uint64_t address, Lid lid, PortId ingress) const override;
  /// Gives up all that waits for a failed link: its source sends it on another path.
  void take_back(PortId out) override;
  Time forgets_from() const override { return metered_until_; }
  /// Notifies the client at the message's end, when all bytes that can arrive have arrived.
  void complete(Message& message);
  /// The requesters of a port. A port serves them in turns, by number; they are numbered in the order of first use.
  std::size_t requesters(PortId out) const {
    return out.value() < outlets_.size() ? outlets_[out.value()].requesters.size() : 0;
  }
  const RequesterKey& requester(PortId out, std::size_t number) const {
    return outlets_[out.value()].requesters[number].key;
  }
  /// Adds a requester, as its first message would.
  void add_requester(PortId out, const RequesterKey& key);
  /// A read of this endpoint will not be answered.
  virtual void read_lost(Transaction&) {}

 protected:
  /// The bytes of a message that leave through one port.
  struct Part {
    Message* message = nullptr;
    Bytes bytes = 0;        ///< not cut into transactions yet
    Bytes whole_bytes = 0;  ///< when it was injected
    Time stalled_before;    ///< stall time of the port at the injection
    std::uint64_t address = 0;
    Lid lid = 0;
    TransactionKind kind = TransactionKind::write;
    std::uint64_t reply_to = 0;
    GroupId group = 0;
    Bytes engine_payload_bytes = 0;
    Meter* meter = nullptr;  ///< the meter for its bytes; null: none
    Time metered;            ///< the meter has counted the cut bytes until then
    Rate rate;               ///< rate at which the source writes; zero: as fast as the link
    Time written;            ///< the source has written the cut bytes by then
    bool first = true;
  };

  /// A part that contains a whole message. @pre its address is set
  Part whole_of(Message& message) const;
  /// Queues a part after earlier parts of its requester; `transaction_bytes` is that of the message.
  void inject(PortId out, const Part& part);
  /// A requester of the device itself at a port, for responses and forwarded transactions.
  std::uint32_t add_requester(PortId out);
  void enqueue(PortId out, std::uint32_t requester, Transaction& transaction);
  /// Gives up a transaction that waited, or was about to wait, for a failed link.
  virtual void cut_off(Transaction& transaction, PortId out);
  /// Stores the bytes of a write in this endpoint's memory and notifies the message's client at its last tail.
  void land(Transaction& transaction);
  /// Handles a read or reduce request: this endpoint's memory answers after read_latency(), on the ingress port.
  void respond(Transaction& transaction);
  /// The answer to a request is ready to leave through its egress; the request holds no resources any more.
  void answer(Transaction& transaction);

  /// A memory: answers requests and stores all other transactions.
  void receive(Transaction& transaction) override;
  const Transaction& front(PortId out, std::uint8_t vc, std::uint32_t requester) override;
  Transaction& take(PortId out, std::uint8_t vc, std::uint32_t requester) override;
  void departed(Transaction& transaction, PortId out, Time leaves) override;
  void on_own_event(std::uint32_t tag, std::uint64_t data) override;

  static constexpr std::uint32_t kDeliveredTag = kFirstOwnTag;
  static constexpr std::uint32_t kLeftTag = kFirstOwnTag + 1;
  static constexpr std::uint32_t kWrittenTag = kFirstOwnTag + 2;
  static constexpr std::uint32_t kRespondTag = kFirstOwnTag + 3;
  static constexpr std::uint32_t kFirstEndpointTag = kFirstOwnTag + 4;

  /// Number of the requester of a message at a port; created at first use.
  std::uint32_t requester_of(PortId out, const Message& message);

 private:
  static constexpr std::uint32_t kNobody = 0xffffffffu;
  struct Requester {
    TransactionQueue ready;  ///< only the front is visible to the port
    Ring<Part> parts;        ///< not cut yet
    RequesterKey key;
    Time last_left;  ///< departure of the tail of the latest transaction; the next one waits from then on
  };
  struct Outlet {
    std::vector<Requester> requesters;
    RequesterKey latest_key;  ///< latest key that was looked up, and its number
    std::uint32_t latest = kNobody;
    std::uint32_t taken = kNobody;                    ///< requester of the transaction just taken
    std::array<std::uint32_t, kClassVcs> responders;  ///< by response virtual channel
    std::unordered_map<RequesterKey, std::uint32_t, RequesterKeyHash> by_key;
    Outlet() { responders.fill(kNobody); }
  };
  Outlet& outlet(PortId out);
  std::uint32_t requester_of(PortId out, const RequesterKey& key);
  /// The requester of answers on a response virtual channel.
  std::uint32_t responder_of(PortId out, std::uint8_t vc);
  /// Cuts the next transaction of a requester without a ready one; false if no bytes are left.
  bool stage(PortId out, Requester& requester);
  /// Delays a staged transaction's head until its part's meter is free, and attributes the wait to the meter.
  void wait_for_meter(Part& part, Transaction& transaction);
  /// Requests the port: now, or when the source begins to write the staged bytes.
  void request_staged(PortId out, std::uint32_t number);
  /// Counts bytes of a message that have left its source.
  void count_left(Message& message, Bytes bytes, Time leaves);

  Window window_;
  Time metered_until_;
  std::vector<Outlet> outlets_;
};

}  // namespace railyard::transport
