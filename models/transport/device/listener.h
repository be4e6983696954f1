// Events that the fabric reports to listeners (counters, waveforms). Listeners decide nothing: a run is the same
// without them.
#pragma once

#include <string>
#include <vector>

#include "base/units.h"
#include "transport/link/egress_port.h"

namespace railyard::transport {

class Device;
struct Message;
struct Transaction;

class FabricListener {
 public:
  /// A message was passed to its sender; none of its bytes has moved yet.
  virtual void on_send(const Message& message, Time now) = 0;
  /// The last byte of a message has arrived, or all bytes that failed links have let through. Its client is notified
  /// next.
  virtual void on_delivered(const Message& message, Time now) = 0;
  /// A transaction started on `port` of `device` at `now`; the line is charged until `line_free`.
  virtual void on_start(const Device& device, PortId port, const Transaction& transaction, Time now,
                        const Crossing& crossing) = 0;
  /// Bytes waiting to start on that port changed.
  virtual void on_queue(const Device& device, PortId port, Bytes queued, Time now) = 0;
  /// Credit for `bytes` on the wire came back to that port at `now`; it is usable from `usable` on.
  virtual void on_credit(const Device& device, PortId port, std::uint8_t vc, Bytes bytes, Time now, Time usable) = 0;
  /// A collective was replayed: from `from` to `until` it adds `added` to the counters of that port, without the events
  /// above.
  virtual void on_replay(const Device&, PortId, std::uint8_t /*traffic_class*/, const PortCounters& /*added*/,
                         Time /*from*/, Time /*until*/) {}

 protected:
  ~FabricListener() = default;
};

/// Passes each event to several listeners, in the order in which they were added.
class FabricListeners final : public FabricListener {
 public:
  void add(FabricListener& listener) { listeners_.push_back(&listener); }

  void on_send(const Message& message, Time now) override {
    for (FabricListener* listener : listeners_) listener->on_send(message, now);
  }
  void on_delivered(const Message& message, Time now) override {
    for (FabricListener* listener : listeners_) listener->on_delivered(message, now);
  }
  void on_start(const Device& device, PortId port, const Transaction& transaction, Time now,
                const Crossing& crossing) override {
    for (FabricListener* listener : listeners_) listener->on_start(device, port, transaction, now, crossing);
  }
  void on_queue(const Device& device, PortId port, Bytes queued, Time now) override {
    for (FabricListener* listener : listeners_) listener->on_queue(device, port, queued, now);
  }
  void on_credit(const Device& device, PortId port, std::uint8_t vc, Bytes bytes, Time now, Time usable) override {
    for (FabricListener* listener : listeners_) listener->on_credit(device, port, vc, bytes, now, usable);
  }
  void on_replay(const Device& device, PortId port, std::uint8_t traffic_class, const PortCounters& added, Time from,
                 Time until) override {
    for (FabricListener* listener : listeners_) listener->on_replay(device, port, traffic_class, added, from, until);
  }

 private:
  std::vector<FabricListener*> listeners_;
};

}  // namespace railyard::transport
