// A transaction: a train of packets of one message, which crosses link after link as one unit. It is the payload of our
// TLM protocol. Ownership moves from device to device; the last device returns the transaction to its pool.
#pragma once

#include <cstddef>
#include <deque>
#include <tlm>

#include "base/index.h"
#include "transport/device/message.h"
#include "transport/link/link.h"

namespace railyard::transport {

struct Transaction;

/// State in a switch of a transaction that is copied to the members of a group. Kept until the last copy has left and,
/// for a reduction, until the last operand has arrived.
struct Fork {
  Transaction* origin = nullptr;  ///< the incoming transaction; in a reduction it becomes the result
  std::uint32_t copies = 0;       ///< not left yet
  std::uint32_t operands = 0;     ///< not arrived yet
  Time left;                      ///< departure of the latest copy's tail: then the input buffer is free
  Time tail;                      ///< tail of the latest operand
  Fork* next = nullptr;           ///< free list
};

struct Transaction {
  Message* message = nullptr;      ///< the message of these bytes
  std::uint64_t address = 0;       ///< destination memory window + offset; decoded by NVLink and PCIe switches
  std::uint64_t reply_to = 0;      ///< of a read request: destination of its response
  std::uint64_t requester = 0;     ///< of a read request: mark set by the requester, returned with the response
  Bytes payload_bytes = 0;         ///< never changes
  Bytes wire_bytes = 0;            ///< on the current link
  Bytes credit_bytes = 0;          ///< bytes in the receiver's credit on the current link
  Bytes reverse_debt = 0;          ///< acks and DLLPs that the receiver owes on the current link
  Bytes engine_payload_bytes = 0;  ///< the sending engine's packet limit; 0: the link's
  Time head, tail;                 ///< arrival at the next device; final once sent
  Time first_packet;               ///< arrival of its whole first packet at that device
  Time waiting_since;              ///< start of its current wait
  Time stalled_before;             ///< stall time of its port at that moment
  Bytes held_up_bytes =
      0;  ///< bytes of the message that this wait delays; at the source, including all bytes behind it
  Transaction* next = nullptr;  ///< queue or free list
  Fork* fork = nullptr;         ///< set if this is a copy or an operand
  Lid lid = 0;                  ///< destination port on the network; decoded by InfiniBand switches
  Lid reply_lid = 0;            ///< of a read request on the network: the port that its response is sent to
  GroupId group = 0;  ///< multicast and reduction: the group of memories; the address is an offset in each of them
  std::uint32_t packets = 0;  ///< number of packets in the receiver's header credits on the current link
  TransactionKind kind = TransactionKind::write;
  std::uint8_t traffic_class = 0;
  std::uint8_t virtual_channel = 0;
  bool first_of_message = false;
  PortId ingress;  ///< input port at the device that holds it
  PortId egress;   ///< output port selected by that device's decoder

  /// Payload bytes that cross the link; 0 for a request, which only names payload.
  Bytes carried_bytes() const { return asks(kind) ? 0 : payload_bytes; }
};

enum class Phase : std::uint8_t { head, credit };

/// HEAD goes forward when a train's head is sent; delay is the time until the head arrives. CREDIT goes backward; delay
/// is the time until the train's tail leaves the receiver; credit_bytes, packets and virtual_channel give the returned
/// credit. Calls only store and schedule.
struct FabricProtocol {
  using tlm_payload_type = Transaction;
  using tlm_phase_type = Phase;
};

class PoolObserver {
 public:
  /// The last transaction was released. Called inside a device: schedule only.
  virtual void on_pool_empty() = 0;

 protected:
  ~PoolObserver() = default;
};

class TransactionPool {
 public:
  Transaction* acquire() {
    ++live_;
    if (free_ == nullptr) {
      storage_.emplace_back();
      return &storage_.back();
    }
    Transaction* t = free_;
    free_ = t->next;
    *t = Transaction();
    return t;
  }
  void release(Transaction* t) {
    t->next = free_;
    free_ = t;
    if (--live_ == 0 && observer_ != nullptr) observer_->on_pool_empty();
  }
  /// Null: no observer.
  void watch(PoolObserver* observer) { observer_ = observer; }
  /// Transactions that are not back in the pool; zero at the end of a run without losses.
  std::size_t live() const { return live_; }

 private:
  std::deque<Transaction> storage_;
  Transaction* free_ = nullptr;
  std::size_t live_ = 0;
  PoolObserver* observer_ = nullptr;
};

/// First in, first out, through Transaction::next.
class TransactionQueue {
 public:
  bool empty() const { return front_ == nullptr; }
  Transaction* front() const { return front_; }
  void push(Transaction* t) {
    t->next = nullptr;
    (front_ == nullptr ? front_ : back_->next) = t;
    back_ = t;
  }
  Transaction* pop() {
    Transaction* t = front_;
    front_ = t->next;
    return t;
  }

 private:
  Transaction* front_ = nullptr;
  Transaction* back_ = nullptr;
};

}  // namespace railyard::transport
