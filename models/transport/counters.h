// What is counted at the sender of every direction of every link.
#pragma once

#include <array>

#include "base/units.h"
#include "transport/traffic_class.h"

namespace railyard::transport {

/// Utilisation is busy / elapsed and cannot exceed 1: charges never overlap.
struct PortCounters {
  std::uint64_t transactions = 0;
  Bytes payload_bytes = 0;   ///< of writes and read responses
  Bytes wire_bytes = 0;      ///< with every overhead
  Bytes lost_bytes = 0;      ///< of payload_bytes: on the link when it was lost
  Time busy;
  Bytes queued_bytes = 0;    ///< payload waiting to start, now
  Bytes peak_queued_bytes = 0;   ///< what starts as it comes has not waited
  /// By class: what messages took longer than they would have alone, as far as this port is what they waited for.
  std::array<TimeSum, kMaxClasses> waited{};
};

}  // namespace railyard::transport
