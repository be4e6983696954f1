// The room `fluid` computes links as rates. Fluid keeps a FluidStream for messages of one path and class; FluidRates
// solves max-min rates when streams begin or end, with PortShares at devices, and finds rates again that it has solved
// before (RateMemory); FluidPath has the crossings of a path and its time alone, and PathShape what a size costs on all
// paths that are alike. Fabric calls Fluid where links are fluid; collectives use FluidRates for virtual members
// (SharedLinks).
//
// Fluid fidelity: messages as streams of bytes with max-min rates instead of trains. Use it for bulk traffic at large
// scale, if single trains do not matter. Trains are the reference.
//
// Messages of one (source, target, class, engine, queue pair) form a stream, in order. A stream drains
// its front message at its rate (rates.h), which is solved again when streams start and end. A message takes its time
// without contention (path.h), exact to the femtosecond, with the time of its slowest stage multiplied by alone rate /
// rate.
//
// Differences to trains: buffers fill and drain in no time, so no train waits behind a blocked front; a shallow buffer
// limits a virtual channel to W/RTT, but has no other effect; messages that share a line arrive together instead of
// train by train. A stream occupies all links of its path at the same time, from the start of its first byte until its
// last byte has left the source. Switches with a choice of paths select by destination.
//
// A stream that shares no link costs one event per message, and no look-up.
#pragma once

#include <deque>
#include <unordered_map>
#include <vector>

#include "transport/fluid/rates.h"
#include "transport/fluid/stream.h"

namespace railyard::transport {

class Fluid final : private CalendarClient {
 public:
  Fluid(const FabricContext& context, const Routes& routes)
      : context_(context), routes_(routes), rates_(context.plan, true) {}

  /// Messages that leave their source by this link, in either direction, are fluid. @pre all links on their paths are
  /// fluid, too
  void add(Device& device, PortId port);
  /// Takes a message over and notifies its client. @return false without effect if the message is not fluid: its links
  /// are not fluid, or it crosses no link (a copy within a memory)
  bool send(Message& message);
  void links_changed();
  /// Ports are charged for a message when it has left its source. This charges them for the bytes that have left by
  /// now.
  void charge_until_now();
  /// See Fabric.
  std::vector<FluidStreamKey> streams_since(const std::vector<Window>& sources, Time since) const;
  std::optional<std::uint32_t> number_of(const FluidStreamKey& key) const;

 private:
  static constexpr std::uint32_t kWakeTag = 0;
  static constexpr std::uint32_t kSolveTag = 1;

  void add(Meter& meter);
  FluidStream& stream_of(const Message& message);
  /// After links have changed, or when a way does not agree with the others.
  void build_paths();
  FluidPath* path_of(std::uint64_t pair, const Message& message);
  /// Starts an idle stream: puts it on its links and begins with its front message.
  void start(FluidStream& stream);
  /// All streams on a port will report when they leave. @return true if there are any
  bool meet(FluidPort& port);
  /// Begins to drain the front message.
  void drain(FluidStream& stream, Time from);
  /// Processes the bytes that have left by now.
  void settle(FluidStream& stream);
  void left(FluidStream& stream, Message& message);
  void tell_left(FluidStream& stream);
  void land(FluidStream& stream);
  /// Schedules the next event of the stream.
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
  PathShapes shapes_;
  std::deque<FluidPath> paths_;
  std::unordered_map<std::uint64_t, FluidPath*> by_pair_;
  std::unordered_map<FluidStreamKey, FluidStream*, FluidStreamKeyHash> by_key_;
  /// By source: its streams, and that of its latest message.
  struct OfSource {
    FluidStream* latest = nullptr;
    std::vector<const FluidStream*> all;
  };
  std::vector<OfSource> by_source_;
  bool solving_ = false;       ///< a call of solve() is scheduled
  bool by_first_lane_ = true;  ///< links of a way's first lane stand in for those of its other lanes
};

}  // namespace railyard::transport
