// What becomes of bytes that a lost link has taken or cut off: their source sends them again another way, at the instant at
// which they are missed; no time-out of a protocol's own is modelled. Where there is no way left they are undeliverable: when
// everything else of their message has landed, its client is told so instead of on_delivered().
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "transport/device/routes.h"

namespace railyard::transport {

/// Bytes without which a run cannot go on.
struct Undeliverable {
  Time at;
  Window source = 0, destination = 0;
  Bytes bytes = 0;  ///< of the whole message
  std::uint8_t traffic_class = 0;
  std::string part_of;  ///< what its client says it is
};

class Recovery : public LossObserver, private CalendarClient {
 public:
  Recovery(const FabricContext& context, const Routes& routes) : context_(context), routes_(routes) {}

  void on_lost(Message& message, std::uint64_t address, Bytes bytes) override;
  void on_read_lost(Transaction& transaction) override;
  /// Bytes that were lost or cut off, sent again or not.
  Bytes lost_bytes() const { return lost_bytes_; }
  /// The first bytes that could not be delivered and whose client does not go on without them.
  const std::optional<Undeliverable>& undeliverable() const { return undeliverable_; }

 private:
  struct Loss {
    Message* message = nullptr;
    std::uint64_t address = 0;
    Bytes bytes = 0;
  };
  void give_up(Message& message, Bytes bytes);
  void on_event(std::uint32_t tag, std::uint64_t data) override;

  const FabricContext& context_;
  const Routes& routes_;
  std::vector<Loss> losses_;  ///< of this instant
  Bytes lost_bytes_ = 0;
  std::optional<Undeliverable> undeliverable_;
};

}  // namespace railyard::transport
