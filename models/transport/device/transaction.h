// A transaction: a train of packets of one message, as it crosses one link after another. It is the payload of our TLM
// protocol; ownership moves with it from device to device, and the last device returns it to the pool it came from.
#pragma once

#include <cstddef>
#include <deque>
#include <tlm>

#include "base/index.h"
#include "transport/device/message.h"
#include "transport/link/link.h"

namespace railyard::transport {

struct Transaction;

/// What a switch keeps of a transaction that it copies to the members of a group: until the last copy has left and, for a
/// reduction, until the last operand has come.
struct Fork {
  Transaction* origin = nullptr;  ///< what came in; of a reduction it becomes the result
  std::uint32_t copies = 0;       ///< not left yet
  std::uint32_t operands = 0;     ///< not come yet
  Time left;                      ///< tail of the latest copy that left: the input buffer is free then
  Time tail;                      ///< of the latest operand
  Fork* next = nullptr;           ///< free list
};

struct Transaction {
  Message* message = nullptr;      ///< whose bytes these are
  std::uint64_t address = 0;       ///< destination memory window + offset; decoded by NVLink and PCIe switches
  std::uint64_t reply_to = 0;      ///< read request: where its response goes
  std::uint64_t requester = 0;     ///< read request: the requester's own mark, returned with the response
  Bytes payload_bytes = 0;         ///< never changes
  Bytes wire_bytes = 0;            ///< on the link it crosses now
  Bytes credit_bytes = 0;          ///< what the receiver's credit counts there
  Bytes reverse_debt = 0;          ///< acks and DLLPs the receiver owes for it on this link
  Bytes engine_payload_bytes = 0;  ///< the sending engine's packet limit; 0: the link's
  Time head, tail;                 ///< arrival at the device it is heading to; final once sent
  Time first_packet;               ///< when its first packet is whole there
  Time waiting_since;              ///< when it became eligible where it waits now
  Time stalled_before;             ///< what its port had stalled by then
  Bytes held_up_bytes =
      0;  ///< of its message, that its waiting here holds up: at the source, all that is behind it, too
  Transaction* next = nullptr;  ///< queue or free list
  Fork* fork = nullptr;         ///< of which it is a copy or an operand
  Lid lid = 0;                  ///< destination port on the network; decoded by InfiniBand switches
  GroupId group = 0;  ///< multicast and reduction: whose members take part; the address is an offset in their memories
  std::uint32_t packets = 0;  ///< that the receiver's header credits count on the link it crosses now
  Operation operation = Operation::write;
  std::uint8_t traffic_class = 0;
  std::uint8_t virtual_channel = 0;
  bool first_of_message = false;
  PortId ingress;  ///< where it came in at the device that holds it
  PortId egress;   ///< where that device's decoder sends it

  /// Payload that is really on the link: a request only names it.
  Bytes carried_bytes() const { return asks(operation) ? 0 : payload_bytes; }
};

enum class Phase : std::uint8_t { head, credit };

/// HEAD goes forward when a train's head is sent: delay is when the head arrives. CREDIT goes backward: delay is when the
/// train's tail leaves the receiver, credit_bytes, packets and virtual_channel say what comes back. Calls only store and schedule.
struct FabricProtocol {
  using tlm_payload_type = Transaction;
  using tlm_phase_type = Phase;
};

class PoolObserver {
 public:
  /// The last transaction was released, inside a device: schedule only.
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
  /// Null: nobody.
  void watch(PoolObserver* observer) { observer_ = observer; }
  /// Transactions not yet home; zero at the end of a run that lost none.
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
