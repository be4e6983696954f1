// The messages of one queue pair as a stream: the front drains, later messages wait, and messages that have left are in
// flight.
#pragma once

#include "transport/fluid/rates.h"
#include "transport/fluid/stream_key.h"

namespace railyard::transport {

struct FluidStream : FluidFlow {
  FluidStreamKey key;
  Time sent;  ///< when a message was sent last
  FluidPath* path = nullptr;
  /// Linked by Message::next. Before a message has left, `finished` is its time from leaving to arrival.
  Message* front = nullptr;
  Message* back = nullptr;
  Message* landing = nullptr;  ///< left and not arrived yet, in order
  Message* last_landing = nullptr;
  Message* untold = nullptr;  ///< the first message in flight whose client has not been notified that it left
  Time lands;                 ///< arrival of the latest message that left; no message overtakes it
  double speed = 1;           ///< rate / demand
  Leaving leaving;            ///< of the front; the last piece is under way, earlier ones are kept if `is_logged`
  bool is_logged = false;     ///< charges of the front are recorded
  std::vector<Time> charged;  ///< by SizedMessage::Charge: time already charged for the front; empty: none
  Time wake = Time::max();    ///< the pending event, if any
  std::uint64_t carry = 0;    ///< of the price, along a gapless stream
  bool meets = false;         ///< other streams must be notified when it ends
  /// Of a front with `tell_waits` that others slow down: their rates at its narrowest port, by class; otherwise empty.
  std::vector<double> others;

  /// The front begins to drain, for the time that it would take without contention.
  void begin(Time from, Time alone);
  /// It drains from then on, for this time at speed 1.
  void drain_from(Time from, Time alone);
  /// Stops until a new rate is set; the rest of the front takes `longer` times its previous time.
  void stop(Time now, double longer);
  void take_rate();
  /// Uses the newly assigned rate from now on. @pre bytes that have left by `now` have been processed
  void change_speed(Time now);
  /// Records the time that the front has lost to other streams at this speed.
  void book_wait(Time until) const;
  void note_others();
  void push(Message& message);
  /// The front has left: it is in flight now.
  void front_left();
};

}  // namespace railyard::transport
