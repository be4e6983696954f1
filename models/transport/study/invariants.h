// What must hold at every moment of every run, as a listener: always on in debug builds and in tests, absent otherwise, so
// that the fabric itself carries no checks. A violation is a fault of the model, never of its input: SC_REPORT_FATAL.
//
// - Bytes in = bytes out at every device a message crosses: its source gives all of them, its destination takes all of them.
//   A multicast leaves the switches n times, a reduction one n-th of what entered them. (Not where links can be lost.)
// - A train takes at least its bytes at the line rate, and the latency; a line is charged for no more than has passed.
// - A channel has no more outstanding than the far buffer, a train that begins within it and one that is counted with it.
// - When all is over nothing is under way: no message, no transaction, no credit, no byte in a queue.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "transport/device/device.h"

namespace railyard::transport {

class Invariants final : public FabricListener {
 public:
  explicit Invariants(const FabricContext& context) : context_(context) {}

  /// Nothing is under way on these devices.
  void expect_settled(const std::vector<Device*>& devices) const;

  void on_send(const Message& message, Time now) override;
  void on_delivered(const Message& message, Time now) override;
  void on_start(const Device& device, PortId port, const Transaction& transaction, Time now,
                const Crossing& crossing) override;
  void on_queue(const Device&, PortId, Bytes, Time) override {}
  void on_credit(const Device& device, PortId port, std::uint8_t channel, Bytes bytes, Time now, Time usable) override;

 private:
  struct Passage {
    const Device* device;
    Bytes in = 0, out = 0;
  };
  using Passages = std::vector<Passage>;  ///< by device, of one message
  static Passage& at(Passages& passages, const Device& device);
  void expect(bool holds, const Device& device, const std::string& what) const;
  void expect_transfer(const Message& message, const Passages& passages) const;
  void expect_group(const Message& message, const Passages& passages) const;

  const FabricContext& context_;
  std::unordered_map<const Message*, Passages> under_way_;
};

}  // namespace railyard::transport
