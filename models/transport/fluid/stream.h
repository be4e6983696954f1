// The messages of one queue pair as a stream: the front drains, others wait behind it, and what has left is on its way to land.
#pragma once

#include "transport/fluid/rates.h"

namespace railyard::transport {

struct FluidStream : FluidFlow {
  struct Key {
    std::uint64_t pair = 0;  ///< source, target, kind, class, engine
    std::uint32_t channel = 0;
    bool operator==(const Key& other) const { return pair == other.pair && channel == other.channel; }
  };
  struct KeyHash {
    std::size_t operator()(const Key& key) const {
      return static_cast<std::size_t>((key.pair ^ key.channel) * 0x9e3779b97f4a7c15ull >> 5);
    }
  };

  Key key;
  /// Linked through Message::next; `finished` of a message that has not left is the time from its leaving to its landing.
  Message* front = nullptr;
  Message* back = nullptr;
  Message* landing = nullptr;  ///< left and not landed yet, in order
  Message* last_landing = nullptr;
  Message* untold = nullptr;  ///< the first of them whose client has yet to hear that it left
  Time lands;                 ///< the latest that left: nothing overtakes it
  double speed = 1;           ///< rate / demand
  Time begun;                 ///< when the front began to drain
  Time since;                 ///< that it drains at this speed
  Time remaining;             ///< of the front, then, at speed 1
  Time wake = Time::max();    ///< the pending event, if any
  std::uint64_t carry = 0;    ///< of the price, along a gapless stream
  bool meets = false;         ///< somebody must hear when it ends

  /// The front drains from then on, for as long as it would take alone.
  void drain_from(Time from, Time alone);
  /// Waits for a rate; what is left of the front takes `longer` times what it did.
  void stop(Time now, double longer);
  void take_rate();
  /// As of now, takes the rate that it has been given. @pre what has left by `now` has been moved on
  void change_speed(Time now);
  /// What the front would still take alone.
  Time rest(Time now) const;
  /// Books what the front has lost to others at this speed.
  void book_wait(Time until) const;
  void push(Message& message);
  /// The front has left: it is going to land.
  void front_left();
};

}  // namespace railyard::transport
