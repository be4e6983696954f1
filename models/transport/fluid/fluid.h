// Fluid fidelity: messages as streams of bytes with max-min rates instead of trains. For bulk traffic at scale, where the
// course of each train does not matter; trains remain the reference.
//
// Messages of one (source, target, class, engine, channel) follow each other in a stream, as in a queue pair. A stream drains its
// front message at its rate (rates.h), which is solved anew when streams start and end. A message takes what it would
// take alone (path.h), to the femtosecond, with the time of its slowest stage stretched by alone rate / rate.
//
// What is lost against trains: buffers fill and drain in no time, so nothing is held up behind a blocked front, a shallow
// buffer limits a channel to W/RTT and no further, and what shares a line lands together instead of train by train. A stream
// occupies all links of its way at once, from when its first byte starts to when its last byte has left the source. Switches
// with a choice of ways take the one by destination.
//
// A stream that meets nobody costs one event a message, and no look-up.
#pragma once

#include <deque>
#include <unordered_map>
#include <vector>

#include "transport/fluid/rates.h"
#include "transport/fluid/stream.h"

namespace railyard::transport {

class Fluid : private CalendarClient {
 public:
  Fluid(const FabricContext& context, const Routes& routes)
      : context_(context), routes_(routes), rates_(context.plan) {}

  /// Messages that leave their source by this link, in either direction, are fluid. @pre so are all links on their ways
  void add(Device& device, PortId port);
  /// Takes a message over; its client is told. @return false, and nothing has happened, if it is not fluid: its links are not,
  /// or it crosses none (a copy within a memory)
  bool send(Message& message);
  void links_changed();

 private:
  static constexpr std::uint32_t kWakeTag = 0;
  static constexpr std::uint32_t kSolveTag = 1;

  void add(Meter& meter);
  FluidStream& stream_of(const Message& message);
  FluidWay* way_of(std::uint64_t pair, const Message& message);
  /// It was idle: puts it on its links and begins with its front message.
  void start(FluidStream& stream);
  /// Whoever is on a port will say when it leaves. @return whether anybody is
  bool meet(FluidPort& port);
  /// Begins to drain the front message.
  void drain(FluidStream& stream, Time from);
  /// Moves on what has left by now.
  void settle(FluidStream& stream);
  void left(FluidStream& stream, Message& message);
  void tell_left(FluidStream& stream);
  void land(FluidStream& stream);
  /// Comes back when something of the stream is due.
  void schedule(FluidStream& stream);
  void solve_soon();
  void solve();
  void on_event(std::uint32_t tag, std::uint64_t data) override;

  Time now() const { return context_.calendar.now(); }

  const FabricContext& context_;
  const Routes& routes_;
  FluidRates rates_;
  std::deque<FluidPort> ports_;
  std::deque<FluidStream> streams_;
  std::deque<FluidWay> ways_;
  std::unordered_map<std::uint64_t, FluidWay*> by_pair_;
  std::unordered_map<FluidStream::Key, FluidStream*, FluidStream::KeyHash> by_key_;
  std::vector<FluidStream*> latest_;  ///< by source
  bool solving_ = false;              ///< a solve() is pending
};

}  // namespace railyard::transport
