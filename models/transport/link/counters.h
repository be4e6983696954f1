// What is counted at the sender of every direction of every link.
#pragma once

#include <array>

#include "base/units.h"
#include "transport/link/charge_log.h"
#include "transport/link/traffic_class.h"

namespace railyard::transport {

/// Utilisation is busy / elapsed and cannot exceed 1: charges never overlap.
struct PortCounters {
  std::uint64_t transactions = 0;
  Bytes payload_bytes = 0;  ///< of writes and read responses
  Bytes wire_bytes = 0;     ///< with every overhead
  Bytes lost_bytes = 0;     ///< of payload_bytes: on the link when it was lost
  Time busy;
  Bytes queued_bytes = 0;       ///< payload waiting to start, now
  Bytes peak_queued_bytes = 0;  ///< what starts as it comes has not waited
  /// By class: what messages took longer than they would have alone, as far as this port is what they waited for.
  std::array<TimeSum, kMaxClasses> waited{};

  /// Charges of a collective that is being kept for reuse are noted here, too; null: of none.
  ChargeLog* log = nullptr;
  /// A kept collective is replayed: busy includes all of its charges from the instant `replayed_from` on.
  const ChargeLog* replayed = nullptr;
  Time replayed_from;

  void charge(Time begin, Time end) {
    busy += end - begin;
    if (log != nullptr) log->add(begin, end);
  }
  /// Of busy: charges of the replayed collective that lie after `now`.
  Time ahead(Time now) const { return replayed != nullptr ? replayed->charged_after(now - replayed_from) : Time(); }
};

}  // namespace railyard::transport
