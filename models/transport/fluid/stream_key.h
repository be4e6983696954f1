// What messages have in common that form one fluid stream.
#pragma once

#include "transport/device/message.h"

namespace railyard::transport {

struct FluidStreamKey {
  std::uint64_t pair = 0;  ///< Message::path_key(): source, kind, target, engine, class
  std::uint32_t queue_pair = 0;

  bool operator==(const FluidStreamKey& other) const { return pair == other.pair && queue_pair == other.queue_pair; }
  Window source() const { return static_cast<Window>(pair >> kSource); }
  MessageKind kind() const { return static_cast<MessageKind>(pair >> kKind & 0xf); }
  std::uint8_t traffic_class() const { return static_cast<std::uint8_t>(pair & 0xf); }
  /// A memory or a group, by kind.
  std::uint32_t target() const { return static_cast<std::uint32_t>(pair >> kTarget & 0xffffff); }
  FluidStreamKey between(Window source, std::uint32_t target) const {
    const std::uint64_t others = pair & (std::uint64_t{0xf} << kKind | 0xff);
    return {others | std::uint64_t{source} << kSource | std::uint64_t{target} << kTarget, queue_pair};
  }

 private:
  static constexpr unsigned kSource = 36, kKind = 32, kTarget = 8;  ///< places in Message::path_key()
};

struct FluidStreamKeyHash {
  std::size_t operator()(const FluidStreamKey& key) const {
    return static_cast<std::size_t>((key.pair ^ key.queue_pair) * 0x9e3779b97f4a7c15ull >> 5);
  }
};

}  // namespace railyard::transport
