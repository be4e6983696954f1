// Changes of links during a run: reduced rates and failures. The instant of each change is known before the run.
//
// A rate change applies to trains that start after it; trains on the link are not re-timed. The ratio refers to the
// rate with which the link was built, so 1 restores this rate. Later messages are cut for the new rate if their
// transaction size is automatic, and their times without contention use the new rate.
//
// When a link fails, trains on it are lost if their head has not reached the far end. If the head has arrived, the
// train is not lost. Credits of lost trains are returned. Then routes are updated (LinkObserver). Trains waiting for
// the link take another path from their position or go back to their source; so do lost bytes (recovery.h).
#pragma once

#include <vector>

#include "transport/device/calendar.h"
#include "transport/device/device.h"

namespace railyard::transport {

class Faults final : private CalendarClient {
 public:
  Faults(FabricContext& context, LinkObserver& observer, LossObserver& losses)
      : context_(context), observer_(observer), losses_(losses) {}

  /// Number of changes that are still to come.
  std::size_t pending() const { return pending_; }
  /// From `when` on, trains in this direction use the line at `ratio` of its original rate. @pre 0 < ratio
  void derate(Time when, const LinkEnd& link, double ratio);

  /// At `when` these directions of links fail permanently. @pre nothing is in flight yet
  void fail(Time when, const std::vector<LinkEnd>& links);
  struct Lost {
    Time at;
    LinkEnd link;
  };
  /// The directions that have failed so far, in order.
  const std::vector<Lost>& lost() const { return lost_; }

 private:
  struct Change {
    std::vector<LinkEnd> links;
    Rate rate;  ///< zero: the link fails
  };
  void add(Time when, Change change);
  void lose(const std::vector<LinkEnd>& links);
  void on_event(std::uint32_t tag, std::uint64_t number) override;

  FabricContext& context_;
  LinkObserver& observer_;
  LossObserver& losses_;
  std::vector<Change> changes_;
  std::vector<Lost> lost_;
  std::size_t pending_ = 0;
};

}  // namespace railyard::transport
