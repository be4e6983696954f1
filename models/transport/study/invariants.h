// Invariants of every run, checked by a listener: always on in debug builds and in tests, absent otherwise, so the
// fabric contains no checks. A violation is an error of the model, never of its input: SC_REPORT_FATAL.
//
// - Bytes in = bytes out at every device on a message's path: its source sends all bytes, its destination receives all.
//   A multicast leaves the switches n times, a reduction one n-th of the bytes that entered. (Not if links can fail.)
// - A train takes at least the time of its bytes at the line rate plus the latency; no line is charged beyond now.
// - Outstanding bytes of a virtual channel never exceed the far buffer plus two of its largest trains (egress_port.h).
// - At the end nothing is in flight: no message, no transaction, no credit, no byte in a queue.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "transport/device/device.h"

namespace railyard::transport {

class Invariants final : public FabricListener {
 public:
  explicit Invariants(const FabricContext& context) : context_(context) {}

  /// Checks that nothing is in flight on these devices.
  void expect_settled(const std::vector<Device*>& devices) const;

  void on_send(const Message& message, Time now) override;
  void on_delivered(const Message& message, Time now) override;
  void on_start(const Device& device, PortId port, const Transaction& transaction, Time now,
                const Crossing& crossing) override;
  void on_queue(const Device&, PortId, Bytes, Time) override {}
  void on_credit(const Device& device, PortId port, std::uint8_t vc, Bytes bytes, Time now, Time usable) override;

 private:
  struct Passage {
    const Device* device;
    Bytes in = 0, out = 0;
  };
  using Passages = std::vector<Passage>;  ///< of one message, by device
  static Passage& at(Passages& passages, const Device& device);
  void expect(bool holds, const Device& device, const std::string& what) const;
  void expect_transfer(const Message& message, const Passages& passages) const;
  void expect_group(const Message& message, const Passages& passages) const;

  const FabricContext& context_;
  std::unordered_map<const Message*, Passages> under_way_;
};

}  // namespace railyard::transport
