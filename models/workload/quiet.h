// Waits until no transaction and no credit is under way in a fabric. Tests that run one after the other then all start from the
// same state.
#pragma once

#include "transport/fabric.h"

namespace railyard::workload {

class QuietClient {
 public:
  virtual void on_quiet() = 0;

 protected:
  ~QuietClient() = default;
};

class QuietWaiter : private transport::CalendarClient {
 public:
  QuietWaiter(transport::Fabric& fabric, QuietClient& client) : fabric_(fabric), client_(client) {}
  /// Calls on_quiet() at a later instant, when every transaction has landed and every credit has come home.
  void wait() { fabric_.calendar().at(fabric_.now() + kLook, *this, 0, 0); }

 private:
  /// How often it looks: the longest that a credit is on its way, about.
  static constexpr Time kLook = Time::fs(1'000'000'000);  // 1 us
  void on_event(std::uint32_t, std::uint64_t) override {
    if (fabric_.quiet()) {
      client_.on_quiet();
    } else {
      wait();
    }
  }

  transport::Fabric& fabric_;
  QuietClient& client_;
};

}  // namespace railyard::workload
