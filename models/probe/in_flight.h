// Payload on its way over one link: what has started and whose tail is not yet at the next device.
#pragma once

#include <cstddef>
#include <utility>

#include "base/units.h"
#include "transport/link/ring.h"

namespace railyard::probe {

class InFlight {
 public:
  /// Time goes forward. @pre now < tail
  void start(Time now, Bytes bytes, Time tail) {
    for (; !trains_.empty() && trains_.front().tail <= now; trains_.pop_front()) bytes_ -= trains_.front().bytes;
    bytes_ += bytes;
    trains_.push_back({tail, bytes});
    for (std::size_t i = trains_.size() - 1; i > 0 && trains_[i].tail < trains_[i - 1].tail; --i)
      std::swap(trains_[i], trains_[i - 1]);  // a faster channel's overtakes
  }
  /// As of the latest start.
  Bytes bytes() const { return bytes_; }
  /// When all of it will be there. @pre something has started
  Time until() { return trains_.back().tail; }

 private:
  struct Train {
    Time tail;
    Bytes bytes;
  };
  transport::Ring<Train> trains_;  ///< by tail
  Bytes bytes_ = 0;
};

}  // namespace railyard::probe
