// A bounded amount that is taken at once and comes back at known times: a link's credit, a NIC's read tags or buffer.
// Returns are kept until somebody asks, so that nothing is scheduled for a return that nobody waits for.
#pragma once

#include <cassert>

#include "base/units.h"
#include "transport/link/ring.h"

namespace railyard::transport {

class CreditWindow {
 public:
  void take(Bytes bytes) { outstanding_ += bytes; }
  /// Counts what has come home by `now`, so that only what is under way is kept.
  void settle(Time now) {
    while (!returns_.empty() && returns_.front().when <= now) {
      assert(outstanding_ >= returns_.front().bytes);
      outstanding_ -= returns_.front().bytes;
      returns_.pop_front();
    }
  }
  /// `bytes` are usable again from `when` on. Returns of one link may come out of order.
  void give_back(Time when, Bytes bytes) {
    returns_.push_back({when, bytes});
    for (std::size_t i = returns_.size() - 1; i > 0 && returns_[i].when < returns_[i - 1].when; --i)
      std::swap(returns_[i], returns_[i - 1]);
  }
  /// The first instant from `now` on at which less than `limit` is outstanding; Time::max() when that needs a return that
  /// is not under way yet.
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
  /// Outstanding once every return under way is home.
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
