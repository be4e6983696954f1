// The only event queue of a simulation, in one SC_METHOD, ordered by (time, sequence). Events of one instant run in the
// order in which they were scheduled, not in the order of the kernel's heap. The calendar returns to the SystemC kernel
// at each distinct instant, so sc_time_stamp() is right for foreign processes.
//
// Some events come last at their instant, ordered by a turn instead of their scheduling: begin and end of a
// collective's members, and HBM traffic of messages. Their order does not depend on the events computed in between, so
// a replayed collective interacts with the rest of the machine exactly like a simulated one.
//
// Symmetric traffic has few distinct instants with many events each, so the heap holds runs: events of one instant,
// first in, first out. An event joins the latest run of its instant if this run is among the recent ones; otherwise it
// begins another run with a higher number. Runs of one instant never interleave, so the order is exact in both cases.
// Events that come last form runs of their own, with consecutive turns. If one of these events schedules an event that
// comes earlier than the rest of its run, the rest goes back into the heap.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <systemc>
#include <vector>

#include "base/units.h"

namespace railyard::transport {

/// Receives the events that it scheduled. The client defines `tag` and `data`.
class CalendarClient {
 public:
  virtual void on_event(std::uint32_t tag, std::uint64_t data) = 0;

 protected:
  ~CalendarClient() = default;
};

class Calendar : public sc_core::sc_module {
 public:
  explicit Calendar(sc_core::sc_module_name name);

  /// Also right in a foreign process, at an instant without events of the calendar.
  Time now() const { return running_ ? now_ : Time::fs(sc_core::sc_time_stamp().value()); }
  /// An event beyond the longest possible run ends the simulation instead. @pre when >= now()
  void at(Time when, CalendarClient& client, std::uint32_t tag, std::uint64_t data);
  /// Comes after all other events of that instant, and after those with a lower turn. @pre events of one instant and
  /// turn are equal
  void at_last(Time when, std::uint64_t turn, CalendarClient& client, std::uint32_t tag, std::uint64_t data);
  /// The first of `count` turns in a row, higher than all turns taken before and below kLastTurns.
  std::uint64_t take_turns(std::uint64_t count) { return turns_ += count, turns_ - count; }
  /// Turns from here on are assigned by their owner. They come after all turns of take_turns().
  static constexpr std::uint64_t kLastTurns = 1ull << 62;
  /// The instant at which an event was scheduled beyond the longest possible run.
  const std::optional<Time>& overran() const { return overran_; }
  std::size_t pending() const { return pending_; }
  std::uint64_t events() const { return events_; }

  /// Called before the events of each new instant; returning false stops the simulation there.
  void set_instant_hook(std::function<bool(Time)> hook) { hook_ = std::move(hook); }
  /// Called when no event is left; returning false stops the simulation, though processes of others could go on.
  void set_idle_hook(std::function<bool()> hook) { idle_hook_ = std::move(hook); }
  /// For tests only: events of one instant run in an order drawn from `seed`. Aggregates must change by no more than a
  /// tie.
  void shuffle_ties(std::uint64_t seed) { tie_seed_ = seed; }

 private:
  static constexpr std::uint32_t kNone = 0xffffffffu;
  struct Event {
    CalendarClient* client;
    std::uint64_t data;
    std::uint32_t tag;
    std::uint32_t next;  ///< next in its run, or in the free list
  };
  struct Run {
    Time when;
    std::uint64_t order;  ///< of its first event; the others of a run that comes last have the following orders
    std::uint32_t first;
  };
  struct Later {
    bool operator()(const Run& a, const Run& b) const { return a.when != b.when ? b.when < a.when : b.order < a.order; }
  };
  /// The latest run of an instant, which can still grow.
  struct Recent {
    Time when;
    std::uint32_t last = kNone;
    std::uint64_t order = 0;  ///< of the last event, if the run comes last
  };
  static constexpr unsigned kRecentBits = 6;
  using Recents = std::array<Recent, 1u << kRecentBits>;
  static Recent& recent(Recents& recents, Time when) {
    return recents[when.fs() * 0x9e3779b97f4a7c15ull >> (64 - kRecentBits)];
  }
  /// True if an event of that instant can still join this run.
  bool takes(Time when);
  std::uint32_t keep(const Event& event);
  void push(const Run& run);
  /// Runs the first event of a run. @return the next event, also if it joined meanwhile
  std::uint32_t run_event(std::uint32_t number, Recents& recents);
  /// Runs the events of a run, and events that join them meanwhile.
  void run_from(std::uint32_t first);
  void run_last_from(std::uint32_t first, std::uint64_t order);
  void run();
  void wake_at(Time when);

  std::vector<Run> heap_;
  std::vector<Event> storage_;
  std::uint32_t free_ = kNone;
  Recents recent_, recent_last_;  ///< runs of plain events, and of events that come last
  std::size_t pending_ = 0;
  Time now_;
  Time armed_ = Time::max();
  Time told_ = Time::max();  ///< the latest instant passed to the hook
  std::uint64_t sequence_ = 0;
  std::uint64_t turns_ = 0;
  std::uint64_t events_ = 0;
  std::uint64_t tie_seed_ = 0;
  bool running_ = false;
  std::optional<Time> overran_;
  sc_core::sc_event wake_;
  std::function<bool(Time)> hook_;
  std::function<bool()> idle_hook_;
};

}  // namespace railyard::transport
