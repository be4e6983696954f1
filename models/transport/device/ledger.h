// All messages in flight, and statistics of arrived messages: per class, their times and their times without
// contention.
#pragma once

#include <array>
#include <cstddef>
#include <deque>

#include "transport/device/memory_observer.h"
#include "transport/device/message.h"
#include "transport/link/traffic_class.h"

namespace railyard::transport {

struct ClassTotals {
  std::uint64_t messages = 0;
  Bytes bytes = 0;
  TimeSum actual;  ///< summed over messages
  TimeSum uncontended;

  void add(const ClassTotals& more);
  ClassTotals operator*(std::uint64_t n) const { return {messages * n, bytes * n, actual * n, uncontended * n}; }
};

inline void ClassTotals::add(const ClassTotals& more) {
  messages += more.messages;
  bytes += more.bytes;
  actual.add(more.actual);
  uncontended.add(more.uncontended);
}

class MessageLedger {
 public:
  Message* acquire(const Message& wanted) {
    Message* m = free_;
    if (m != nullptr) {
      free_ = m->next;
    } else {
      storage_.emplace_back();
      m = &storage_.back();
    }
    *m = wanted;
    m->to_land = m->bytes;
    ++live_;
    return m;
  }

  void watch_memories(MemoryObserver* memories) { memories_ = memories; }
  /// The message was passed to its sender; its time without contention is known.
  void begun(const Message& message) const {
    if (memories_ != nullptr) memories_->on_begun(message);
  }

  /// The last byte has arrived: notifies the client, then frees the object.
  void delivered(Message& message) {
    ClassTotals& totals = totals_[message.traffic_class];
    ++totals.messages;
    totals.bytes += message.bytes;
    totals.actual.add(message.finished - message.started);
    totals.uncontended.add(message.uncontended);
    blame(message);
    if (memories_ != nullptr) memories_->on_over(message);
    message.client->on_delivered(message);
    release(message);
  }
  /// All deliverable bytes have arrived: notifies the client, then frees the object.
  void undeliverable(Message& message) {
    if (memories_ != nullptr) memories_->on_over(message);
    message.client->on_undeliverable(message);
    release(message);
  }

  std::size_t live() const { return live_; }
  /// Distributes a message's time beyond its time without contention over the ports for which its transactions waited,
  /// in proportion.
  static void blame(Message& message) {
    const Time excess = since(message.finished - message.started, message.uncontended);
    Time all;
    for (const Message::Wait& wait : message.waits) all += wait.time;
    if (excess == Time() || all == Time()) return;
    for (const Message::Wait& wait : message.waits)
      if (wait.port != nullptr) wait.port->waited[message.traffic_class].add(share(excess, wait.time.fs(), all.fs()));
  }
  const ClassTotals& totals(std::size_t traffic_class) const { return totals_[traffic_class]; }
  /// Adds messages that are replayed instead of simulated.
  void replay(std::size_t traffic_class, const ClassTotals& more) { totals_[traffic_class].add(more); }
  MemoryObserver* memories() const { return memories_; }

 private:
  void release(Message& message) {
    --live_;
    message.next = free_;
    free_ = &message;
  }
  std::deque<Message> storage_;
  Message* free_ = nullptr;
  std::size_t live_ = 0;
  MemoryObserver* memories_ = nullptr;
  std::array<ClassTotals, kMaxClasses> totals_{};
};

}  // namespace railyard::transport
