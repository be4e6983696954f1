// The path of a fluid stream: the links that it crosses in their direction, the share of each link per byte of payload,
// and a message's time without contention. Paths, packet formats and times are the same as for trains (path.h).
//
// Lanes of a message, one for each plane of NVSwitches, often differ in nothing. Then rates are solved on the links of
// the first lane, which stand in for those of all lanes. A multicast in an NVL72 rack crosses 73 links instead of 1314.
#pragma once

#include <limits>
#include <vector>

#include "transport/device/routes.h"
#include "transport/fluid/path_shape.h"
#include "transport/link/byte_clock.h"

namespace railyard::transport {

struct FluidPort;

/// One direction of a link on the path, on which rates are solved.
struct FluidCrossing {
  FluidPort* port = nullptr;
  double wire = 1;                                          ///< wire bytes on this link per byte of payload
  double window = std::numeric_limits<double>::infinity();  ///< limit by its credits, in wire bytes per second
  double owed = 0;              ///< bytes on the opposite direction per byte of payload: acks, read requests
  double weight = 1;            ///< parts of the line that it takes beside streams of weight 1
  std::uint32_t requester = 0;  ///< an input port, or one of the following
  std::uint8_t vc = 0;

  static constexpr std::uint32_t kOwn = 0xffffffffu;        ///< a separate queue of the stream
  static constexpr std::uint32_t kResponder = 0xfffffffeu;  ///< one queue for all answers to reads
};

class FluidPath {
 public:
  /// @param example  a message with its source, target, kind, class and engine
  FluidPath(const FabricContext& context, const Routes& routes, const Message& example, PathShapes& shapes)
      : context_(context), routes_(routes), example_(example), shapes_(shapes) {}

  /// Computes everything, at first and after links have changed.
  /// @param by_first_lane  the links of the first lane may stand in for those of all lanes
  /// @return false if ports have other stand-ins for other ways. @post true, if not by_first_lane for any way
  bool build(bool by_first_lane);

  const std::vector<FluidCrossing>& crossings() const { return crossings_; }
  Bytes transaction_bytes() const { return transaction_bytes_; }
  /// Payload rate of a long message without contention, in bytes per second.
  double rate() const { return rate_; }
  /// Its own acks slow it: it returns by the link by which it leaves its source (a message to the next copy of a folded server),
  /// and the line has no room for both.
  bool meets_itself() const { return meets_itself_; }
  /// Price of the slowest stage; in its unit, a message has the length SizedMessage::slowest_bytes.
  BytePrice& price() { return price_; }

  /// What a message of this size costs. The reference is valid until the next call for a path of this shape.
  const SizedMessage& sized(Bytes bytes) {
    const SizedMessage& kept = shape_->kept(bytes);
    return kept.bytes == bytes ? kept : measure(bytes);
  }
  /// The port of a SizedMessage::Charge.
  FluidPort& charged(const SizedMessage::Charge& charge) const { return *charged_[charge.port]; }
  /// Time without contention; a slow writer's last byte leaves when it is written.
  Time uncontended(const Message& message) {
    const Time path = sized(message.bytes).uncontended;
    return message.source_rate == Rate() ? path : later(path, message.source_rate.time_for(message.bytes) + last_byte_);
  }

 private:
  /// A link of any lane, with the data from which its bytes are computed.
  struct Leg {
    Hop hop;
    std::vector<std::uint32_t> lanes;  ///< that cross it: one, or several over the NICs of one GPU
    bool turns = false;                ///< a NIC sends the bytes that it has read
    FluidCrossing crossing;
  };
  std::uint64_t weight_of(const Leg& leg) const;
  void add(const Hop& hop, const Hop* before, std::uint32_t lane);
  void add_multicast();
  void add_reduction();
  /// Every lane takes the same part of the line at each of its legs.
  bool lanes_are_alike() const;
  /// Sets charged_ and shape_.
  void find_shape();
  const SizedMessage& measure(Bytes bytes);
  Bytes lane_bytes(std::uint32_t lane, Bytes bytes) const;
  /// Cost of a whole transaction on a hop.
  WireCost train_at(const Hop& hop) const;
  /// Amount in the unit of a limit: wire bytes, buffer or headers.
  Bytes taken(PacedBy by, const LinkDirection& link, TransactionKind kind, Bytes payload) const;

  const FabricContext& context_;
  const Routes& routes_;
  Message example_;
  Path path_;
  std::uint64_t weights_ = 1;
  Bytes transaction_bytes_ = 1;
  std::vector<Leg> legs_;                 ///< by lane
  std::vector<FluidCrossing> crossings_;  ///< of all legs, or of those of the first lane; then the meter's
  std::size_t slowest_ = 0;               ///< index of the slowest leg; legs_.size(): the engine's limit
  PacedBy slowest_by_ = PacedBy::line;
  BytePrice price_;
  double rate_ = 0;
  bool meets_itself_ = false;
  Time last_byte_;  ///< from the write of the last byte to its arrival
  std::vector<FluidPort*> charged_;
  PathShapes& shapes_;
  PathShape* shape_ = nullptr;
};

}  // namespace railyard::transport
