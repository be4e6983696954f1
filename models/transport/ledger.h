// Every message under way, and what became of those that landed: per class, what they took against what they would have
// taken alone.
#pragma once

#include <array>
#include <cstddef>
#include <deque>

#include "transport/message.h"
#include "transport/traffic_class.h"

namespace railyard::transport {

struct ClassTotals {
  std::uint64_t messages = 0;
  Bytes bytes = 0;
  double actual_s = 0;       ///< summed over messages
  double uncontended_s = 0;
};

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
    ++live_;
    return m;
  }

  /// The last byte is there: tells the client, then takes the object back.
  void delivered(Message& message) {
    ClassTotals& totals = totals_[message.traffic_class];
    ++totals.messages;
    totals.bytes += message.bytes;
    totals.actual_s += (message.finished - message.started).seconds();
    totals.uncontended_s += message.uncontended.seconds();
    --live_;
    message.client->on_delivered(message);
    message.next = free_;
    free_ = &message;
  }

  std::size_t live() const { return live_; }
  const ClassTotals& totals(std::size_t traffic_class) const { return totals_[traffic_class]; }

 private:
  std::deque<Message> storage_;
  Message* free_ = nullptr;
  std::size_t live_ = 0;
  std::array<ClassTotals, kMaxClasses> totals_{};
};

}  // namespace railyard::transport
