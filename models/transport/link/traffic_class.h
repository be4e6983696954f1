// Traffic classes and the virtual channels they ride on. Transport knows classes by number only; the workload names
// them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/units.h"

namespace railyard::transport {

constexpr std::size_t kMaxClasses = 9;
/// Virtual channels that classes write on.
constexpr std::uint8_t kClassVcs = 6;
/// Read requests ride alone: they pass what waits for a full buffer, and what they wait for themselves blocks nothing
/// else.
constexpr std::uint8_t kRequestVc = kClassVcs;
/// Read responses ride apart from both and always sink, so that requests and responses cannot deadlock. Each class
/// virtual channel has a response virtual channel with its weight and priority, and a buffer of its own: what PCIe
/// keeps for the completions of a virtual channel, beside what it keeps for writes.
constexpr std::uint8_t kFirstResponseVc = kRequestVc + 1;
constexpr std::uint8_t response_vc(std::uint8_t class_vc) {
  return static_cast<std::uint8_t>(kFirstResponseVc + class_vc);
}
constexpr std::size_t kVirtualChannels = kFirstResponseVc + kClassVcs;
constexpr std::size_t kPriorities = 4;

struct ClassSpec {
  std::uint8_t virtual_channel = 0;  ///< 0..5
  std::uint32_t weight = 1;          ///< deficit round robin share of its virtual channel
  std::uint8_t priority = 0;         ///< 0..3, higher goes first
};

/// How a port treats each virtual channel. Where classes share a virtual channel, the largest weight and priority hold.
struct VcPlan {
  std::array<std::uint32_t, kVirtualChannels> weight{};
  std::array<std::uint8_t, kVirtualChannels> priority{};
  std::array<std::uint8_t, kMaxClasses> vc_of{};

  VcPlan() { weight.fill(1); }
  void assign(std::size_t traffic_class, const ClassSpec& spec);
  /// What answers a class's reads.
  std::uint8_t response_vc_of(std::size_t traffic_class) const { return response_vc(vc_of[traffic_class]); }
  bool operator==(const VcPlan& other) const {
    return weight == other.weight && priority == other.priority && vc_of == other.vc_of;
  }
};

inline void VcPlan::assign(std::size_t traffic_class, const ClassSpec& spec) {
  vc_of[traffic_class] = spec.virtual_channel;
  for (const std::uint8_t vc : {spec.virtual_channel, response_vc(spec.virtual_channel)}) {
    if (spec.weight > weight[vc]) weight[vc] = spec.weight;
    if (spec.priority > priority[vc]) priority[vc] = spec.priority;
  }
  // Requests feed the highest class in use: starving them would starve it.
  if (spec.priority > priority[kRequestVc]) priority[kRequestVc] = spec.priority;
}

}  // namespace railyard::transport
