// Traffic classes and the virtual channels they ride on. Transport knows classes by number only; the workload names them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/units.h"

namespace railyard::transport {

constexpr std::size_t kMaxClasses = 4;
constexpr std::size_t kVirtualChannels = 8;
/// Read requests ride alone: they pass what waits for a full buffer, and what they wait for themselves blocks nothing else.
constexpr std::uint8_t kRequestChannel = 6;
/// Read responses ride alone and always sink, so that requests and responses cannot deadlock.
constexpr std::uint8_t kResponseChannel = 7;
constexpr std::size_t kPriorities = 4;

struct ClassSpec {
  std::uint8_t virtual_channel = 0;  ///< 0..5; channels 6 and 7 carry read requests and responses
  std::uint32_t weight = 1;          ///< deficit round robin share of its channel
  std::uint8_t priority = 0;         ///< 0..3, higher goes first
};

/// How a port treats each virtual channel. Where classes share a channel, the largest weight and priority hold.
struct ChannelPlan {
  std::array<std::uint32_t, kVirtualChannels> weight{};
  std::array<std::uint8_t, kVirtualChannels> priority{};
  std::array<std::uint8_t, kMaxClasses> channel_of{};

  ChannelPlan() { weight.fill(1); }
  void assign(std::size_t traffic_class, const ClassSpec& spec);
  bool operator==(const ChannelPlan& other) const {
    return weight == other.weight && priority == other.priority && channel_of == other.channel_of;
  }
};

inline void ChannelPlan::assign(std::size_t traffic_class, const ClassSpec& spec) {
  const std::uint8_t vc = spec.virtual_channel;
  channel_of[traffic_class] = vc;
  if (spec.weight > weight[vc]) weight[vc] = spec.weight;
  if (spec.priority > priority[vc]) priority[vc] = spec.priority;
  // Reads feed the highest class in use: starving them would starve it.
  for (const std::uint8_t reads : {kRequestChannel, kResponseChannel})
    if (spec.priority > priority[reads]) priority[reads] = spec.priority;
}

}  // namespace railyard::transport
