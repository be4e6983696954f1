// Finds the first instant at which a fabric is quiet: every transaction has ended, every credit has come home, and what has
// been sent affects nothing that follows. Measurements that start at such instants all start from the same state.
#pragma once

#include <vector>

#include "transport/device/device.h"

namespace railyard::transport {

class Fabric;

class QuietWatch final : private PoolObserver, private CalendarClient {
 public:
  QuietWatch(Fabric& fabric, TransactionPool& pool) : fabric_(fabric), pool_(pool) {}
  /// on_event(tag, data) of the client follows once, at this instant or later. @pre no fluid streams are under way
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

  Fabric& fabric_;
  TransactionPool& pool_;
  std::vector<Waiting> waiting_;
  bool looks_ = false;  ///< an event of its own is to come
};

}  // namespace railyard::transport
