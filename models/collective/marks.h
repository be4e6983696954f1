// Numbers that the parts of Collective give to the calendar and to messages.
#pragma once

#include <cstdint>

namespace railyard::collective {

// Events of the calendar.
inline constexpr std::uint32_t kStartTag = 0;
inline constexpr std::uint32_t kPreparedTag = 1;  ///< a thread's action has been prepared
inline constexpr std::uint32_t kDoneTag = 2;      ///< a member is done: notify its client
inline constexpr std::uint32_t kPostTag = 3;      ///< a proxy posts a transfer
inline constexpr std::uint32_t kArriveTag = 4;    ///< a proxy has seen an arrival
inline constexpr std::uint32_t kHostTag = 5;      ///< the host has issued its next call
inline constexpr std::uint32_t kLeftTag = 6;      ///< a transfer of a virtual member has left
inline constexpr std::uint32_t kCrossedTag = 7;   ///< messages of virtual members may have crossed a link

/// Mark of a message: its sending thread, the thread and lane that its arrival raises, and whether it raises this lane
/// at every member of the server.
inline constexpr unsigned kThreadBits = 24, kLaneBits = 15;
inline constexpr std::uint64_t kThreadMask = (1u << kThreadBits) - 1;
inline std::uint64_t pack(std::uint32_t from, std::uint32_t thread, std::uint32_t lane, bool everywhere) {
  return static_cast<std::uint64_t>(from) << (kThreadBits + kLaneBits + 1) |
         static_cast<std::uint64_t>(thread) << (kLaneBits + 1) | static_cast<std::uint64_t>(lane) << 1 |
         (everywhere ? 1 : 0);
}
inline std::uint32_t sender_in(std::uint64_t mark) {
  return static_cast<std::uint32_t>(mark >> (kThreadBits + kLaneBits + 1));
}
inline std::uint32_t thread_in(std::uint64_t mark) {
  return static_cast<std::uint32_t>(mark >> (kLaneBits + 1) & kThreadMask);
}
inline std::uint32_t lane_in(std::uint64_t mark) {
  return static_cast<std::uint32_t>(mark >> 1) & ((1u << kLaneBits) - 1);
}
inline bool is_everywhere(std::uint64_t mark) { return (mark & 1) != 0; }

}  // namespace railyard::collective
