// Handles bytes that a failed link has lost or cut off. Their source sends them again on another path, at the instant
// of the loss; protocol time-outs are not modelled. If no path is left, the bytes are undeliverable: when all other
// bytes of their message have arrived, its client gets on_undeliverable() instead of on_delivered().
//
// A switch copies multicasts and adds reductions, so nobody can send a lost copy or operand again. The run then ends,
// also if the client could go on without the message.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "transport/device/routes.h"

namespace railyard::transport {

/// Bytes without which a run cannot continue.
struct Undeliverable {
  Time at;
  Window source = 0, destination = 0;
  MessageKind kind = MessageKind::write;
  GroupId group = 0;  ///< of a multicast or a reduction, instead of the destination
  Bytes bytes = 0;    ///< of the whole message
  std::uint8_t traffic_class = 0;
  std::string part_of;  ///< name given by its client
};

class Recovery final : public LossObserver, private CalendarClient {
 public:
  Recovery(const FabricContext& context, const Routes& routes) : context_(context), routes_(routes) {}

  void on_lost(Message& message, std::uint64_t address, Bytes bytes) override;
  void on_read_lost(Transaction& transaction) override;
  /// Bytes that were lost or cut off, including those that were sent again.
  Bytes lost_bytes() const { return lost_bytes_; }
  /// The first undeliverable bytes whose client cannot continue without them.
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
  std::vector<Loss> losses_;  ///< losses at this instant
  Bytes lost_bytes_ = 0;
  std::optional<Undeliverable> undeliverable_;
};

}  // namespace railyard::transport
