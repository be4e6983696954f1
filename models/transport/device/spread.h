// Messages that use all NICs of their GPU, as the channels of NCCL do (NVIDIA/nccl src/graph/topo.cc, ncclTopoGetLocalNet:
// channel c has NIC c modulo the GPU's NICs). The sender marks the queue pair; the GPU then deals stripes to its NICs. A
// message of a collective stands for a part of every channel, so each NIC gets the same. A message to a peer has few channels
// if it is small.
#pragma once

#include <cstdint>

#include "base/units.h"

namespace railyard::transport {

/// Added to a queue pair.
inline constexpr std::uint32_t kSpreadOverNics = 1u << 19;
/// Added as well: the NICs get equal parts. A queue pair without marks is below this number.
inline constexpr std::uint32_t kSpreadEvenly = 1u << 18;
/// Otherwise: bytes for one NIC before the next one's turn: what NCCL leaves to one channel between servers at least (src/enqueue.cc,
/// addP2pToPlan).
inline constexpr Bytes kNicStripeBytes = 64 << 10;

}  // namespace railyard::transport
