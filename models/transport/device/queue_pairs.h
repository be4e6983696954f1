// Queue pairs of communicators. NCCL opens queue pairs for each communicator (NVIDIA/nccl src/transport/net_ib.cc,
// ncclIbConnect), so what two communicators send between the same GPUs takes turns at the NIC instead of waiting in one
// line. Kernels of two communicators take turns at a GPU's NVLinks as well.
//
// Queue pairs come in numbered sets. Communicators may have the same set if no two GPUs belong to both.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

namespace railyard::transport {

/// Message::queue_pair holds the number of its set above these bits, and its number in the set below.
inline constexpr unsigned kQueuePairBits = 20;
/// Most sets; further communicators share them.
inline constexpr std::uint32_t kQueuePairSets = 1u << 12;

constexpr std::uint32_t in_set(std::uint32_t queue_pair) { return queue_pair & ((1u << kQueuePairBits) - 1); }
constexpr std::uint32_t set_of(std::uint32_t queue_pair) { return queue_pair >> kQueuePairBits; }
constexpr std::uint32_t of_set(std::uint32_t set, std::uint32_t queue_pair) {
  return set << kQueuePairBits | queue_pair;
}

class QueuePairSets {
 public:
  /// The set of a communicator: the lowest one that no earlier communicator of its class has with two of its members.
  /// @param members   each a GPU; of a folded machine, a GPU of a copy
  /// @param instance  distinguishes communicators of one class with the same members
  std::uint16_t set_of(std::uint8_t traffic_class, std::vector<std::uint64_t> members, std::uint32_t instance);

 private:
  std::map<std::tuple<std::uint8_t, std::uint32_t, std::vector<std::uint64_t>>, std::uint16_t> known_;
  std::vector<std::uint16_t> sets_;                                                         ///< by communicator
  std::map<std::pair<std::uint8_t, std::uint64_t>, std::vector<std::uint32_t>> joined_by_;  ///< communicators
};

}  // namespace railyard::transport
