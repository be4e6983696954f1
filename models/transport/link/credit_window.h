// A bounded amount that is taken at once and returned at known times: a link's credit, a NIC's read tags or buffer.
// Returns are stored until the next query, so a return without a waiting requester needs no event.
#pragma once

#include <cassert>

#include "base/units.h"
#include "transport/link/ring.h"

namespace railyard::transport {

class CreditWindow {
 public:
  void take(Bytes bytes) { outstanding_ += bytes; }
  /// Counts the returns that have arrived by `now`; only later returns are kept.
  void settle(Time now) {
    while (!returns_.empty() && returns_.front().when <= now) {
      assert(outstanding_ >= returns_.front().bytes);
      outstanding_ -= returns_.front().bytes;
      returns_.pop_front();
    }
  }
  /// `bytes` are usable again from `when` on. Returns of one link can be added out of order.
  void give_back(Time when, Bytes bytes) {
    returns_.push_back({when, bytes});
    for (std::size_t i = returns_.size() - 1; i > 0 && returns_[i].when < returns_[i - 1].when; --i)
      std::swap(returns_[i], returns_[i - 1]);
  }
  /// The first instant from `now` on at which less than `limit` is outstanding; Time::max() if this needs a return that
  /// has not been added yet.
  Time below(Bytes limit, Time now) {
    if (outstanding_ < limit) return now;
    settle(now);
    Bytes rest = outstanding_;
    for (std::size_t i = 0; rest >= limit; ++i) {
      if (i == returns_.size()) return Time::max();
      rest -= returns_[i].bytes;
      if (rest < limit) return returns_[i].when;
    }
    return now;
  }
  Bytes outstanding() const { return outstanding_; }
  /// Outstanding bytes after all returns in flight have arrived.
  Bytes unreturned() const {
    Bytes rest = outstanding_;
    for (std::size_t i = 0; i < returns_.size(); ++i) rest -= returns_[i].bytes;
    return rest;
  }

 private:
  struct Return {
    Time when;
    Bytes bytes;
  };
  Bytes outstanding_ = 0;
  Ring<Return> returns_;
};

}  // namespace railyard::transport
