// The trains that were last on a line, so that a train that has waited for it can name the classes in front of it.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/units.h"
#include "transport/link/traffic_class.h"

namespace railyard::transport {

class LineUsers {
 public:
  /// Time of the line by class.
  using Times = std::array<Time, kMaxClasses>;

  /// A train has the line for this time. @param message  of the train; trains of one message, one after the other, are one use
  void add(const void* message, std::uint8_t traffic_class, Time until, Time time);
  /// What classes had of this interval, without the trains of this message. Only the latest uses are known.
  Times between(Time from, Time until, const void* except) const;

 private:
  static constexpr std::size_t kKept = 64;
  struct Use {
    const void* message = nullptr;
    Time from, until;
    std::uint8_t traffic_class = 0;
  };
  std::vector<Use> uses_;  ///< a ring
  std::size_t latest_ = 0;
};

}  // namespace railyard::transport
