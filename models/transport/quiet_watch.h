// Finds the first instant at which a fabric is quiet: every transaction has ended, every credit has been returned, and
// earlier traffic does not affect later traffic. Measurements that start at such instants all start from the same
// state.
#pragma once

#include <vector>

#include "transport/device/device.h"

namespace railyard::transport {

/// The first instant from which traffic that has crossed this direction of a link affects no later traffic. The instant
/// can be in the past. Time::max(): the direction is in use.
Time quiet_from(const LinkEnd& link, Time now);

class QuietWatch final : private PoolObserver, private CalendarClient {
 public:
  QuietWatch(Calendar& calendar, TransactionPool& pool, const std::vector<Device*>& devices)
      : calendar_(calendar), pool_(pool), devices_(devices) {}
  /// Calls on_event(tag, data) of the client once, at this instant or later. @pre no fluid stream is active
  void wait(CalendarClient& client, std::uint32_t tag, std::uint64_t data);

 private:
  struct Waiting {
    CalendarClient* client = nullptr;
    std::uint32_t tag = 0;
    std::uint64_t data = 0;
  };
  void look_at(Time when);
  void on_pool_empty() override;
  void on_event(std::uint32_t, std::uint64_t) override;

  Calendar& calendar_;
  TransactionPool& pool_;
  const std::vector<Device*>& devices_;
  std::vector<Waiting> waiting_;
  bool looks_ = false;  ///< an event of this object is scheduled
};

}  // namespace railyard::transport
