// Counters at the sender of each direction of each link.
#pragma once

#include <array>

#include "base/units.h"
#include "transport/link/charge_log.h"
#include "transport/link/line_users.h"
#include "transport/link/traffic_class.h"

namespace railyard::transport {

/// Utilisation is busy / elapsed and cannot exceed 1, because charges do not overlap.
struct PortCounters {
  std::uint64_t transactions = 0;
  Bytes payload_bytes = 0;  ///< of writes and read responses
  Bytes wire_bytes = 0;     ///< including all overhead
  Bytes lost_bytes = 0;     ///< part of payload_bytes: bytes on the link when it failed
  Time busy;
  Bytes queued_bytes = 0;       ///< payload waiting to start, now
  Bytes peak_queued_bytes = 0;  ///< excludes bytes that start without waiting

  /// Also receives the charges of a collective that is recorded for reuse; null: none.
  ChargeLog* log = nullptr;
  /// Of a replayed collective: `busy` includes all its charges from the instant `replayed_from` on.
  const ChargeLog* replayed = nullptr;
  Time replayed_from;
  LineUsers* users = nullptr;  ///< null: nobody asks what messages waited for

  /// By class: time by which messages exceeded their time without contention, as far as they waited for this port. Last
  /// in the struct, because starting trains do not need it.
  std::array<TimeSum, kMaxClasses> waited{};

  /// @param end  of the charged time
  void charge(Time end, Time time) {
    busy += time;
    if (log != nullptr) log->add(end, time);
  }
  /// The part of `busy` that lies after `now`: later charges of the replayed collective.
  Time ahead(Time now) const { return replayed != nullptr ? replayed->charged_after(now - replayed_from) : Time(); }
};

}  // namespace railyard::transport
