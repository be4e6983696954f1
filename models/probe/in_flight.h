// Payload in flight on one link: trains that have started and whose tail has not reached the next device.
#pragma once

#include <cstddef>
#include <utility>

#include "base/units.h"
#include "transport/link/ring.h"

namespace railyard::probe {

class InFlight {
 public:
  /// @pre now < tail; `now` never decreases
  void start(Time now, Bytes bytes, Time tail) {
    for (; !trains_.empty() && trains_.front().tail <= now; trains_.pop_front()) bytes_ -= trains_.front().bytes;
    bytes_ += bytes;
    trains_.push_back({tail, bytes});
    for (std::size_t i = trains_.size() - 1; i > 0 && trains_[i].tail < trains_[i - 1].tail; --i)
      std::swap(trains_[i], trains_[i - 1]);  // a train of a faster virtual channel overtakes
  }
  /// Bytes in flight at the latest start.
  Bytes bytes() const { return bytes_; }
  /// When the last train will have arrived. @pre at least one train has started
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
