// What goes wrong with links during a run, each change at an instant that is known before it starts.
//
// A rate change applies to trains that start after it; what is on the link is never re-timed. The ratio is of the rate that
// the link was built with, so 1 restores it. Messages sent from then on are cut for the new rate where their size is
// automatic, and the times they would take alone are those of the new rate.
//
// When a link is lost, so are the trains on it whose head is not yet at its far end; one whose head is there is through. Their
// credits are given back. Then routes are told (LinkObserver), what waits for the link takes another way from where it is, or
// goes back to its source, and so do the lost bytes (recovery.h).
#pragma once

#include <vector>

#include "transport/device/calendar.h"
#include "transport/device/device.h"

namespace railyard::transport {

class Faults : private CalendarClient {
 public:
  Faults(FabricContext& context, LinkObserver& observer, LossObserver& losses)
      : context_(context), observer_(observer), losses_(losses) {}

  /// Changes still to come.
  std::size_t pending() const { return pending_; }
  /// From `when` on, trains of this direction take the line at `ratio` of the rate it was built with. @pre 0 < ratio
  void derate(Time when, const LinkEnd& link, double ratio);

  /// At `when` these directions of links are lost, for good. @pre nothing is under way yet
  void fail(Time when, const std::vector<LinkEnd>& links);
  struct Lost {
    Time at;
    LinkEnd link;
  };
  /// The directions lost so far, in order.
  const std::vector<Lost>& lost() const { return lost_; }

 private:
  struct Change {
    std::vector<LinkEnd> links;
    Rate rate;  ///< zero: lost
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
