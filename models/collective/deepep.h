// DeepEP's normal kernels, with which tokens reach the ranks of their experts (deepseek-ai/DeepEP dd758ca, csrc/kernels/legacy:
// intranode.cu, internode.cu; deep_ep/buffers/legacy.py). As an all-to-all, `bytes` of its specification are what a rank's
// tokens take on all ranks, its own included.
//
//   notify    numbers of tokens reach all ranks: flags here, first to all ranks with which a member exchanges tokens
//   dispatch  a token crosses the network once for each server with one of its experts, to the rank with the sender's place;
//             this rank sends it over NVLink once to each rank of its server with one of these experts
//   combine   the way back: the rank with the receiver's place adds the results of its server, and sends the sum
//
// A kernel has 20 CTAs: half of them send, the other half forward and receive. Chunks of a few tokens move one after the
// other, so the network, NVLink and the copies run at the same time. GPUs post messages themselves (IBGDA): no proxies.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "base/units.h"

namespace railyard::collective {

/// An all-to-all of tokens.
struct TokenExchange {
  enum class Leg : std::uint8_t { none, notify, dispatch, combine } leg = Leg::none;
  Bytes token_bytes = 0;    ///< of a token on the links
  Bytes network_bytes = 0;  ///< of a rank's tokens on all servers, its own included; each server counts a token once
  bool notifies = false;    ///< begins with flags
  /// By server, in proportion to their bytes; null: equal. Those of members: CollectiveSpec::shares.
  std::shared_ptr<const std::vector<std::uint32_t>> of_servers = nullptr;

  bool runs() const { return leg != Leg::none; }
  auto key() const {
    return std::make_tuple(leg, token_bytes, network_bytes, notifies,
                           of_servers == nullptr ? std::vector<std::uint32_t>() : *of_servers);
  }
};

/// Ranks of a server that DeepEP joins over NVLink; of several servers, each has as many.
constexpr std::uint32_t kDeepEpServerRanks = 8;
constexpr std::uint32_t kDeepEpSms = 20;  ///< Buffer.num_sms, and Megatron Core's default

/// Tokens that a channel sends at once, and those for which a receiver has room.
struct DeepEpChunks {
  std::uint32_t ranks = 0;
  std::uint32_t dispatch_nvlink = 0, dispatch_network = 0, combine_nvlink = 0, combine_network = 0;
  std::uint32_t room_nvlink = 0;
};
constexpr std::uint32_t kDeepEpRoomNetwork = 128;
/// Of Buffer.get_dispatch_config() and get_combine_config(); null: DeepEP has none for so many ranks.
const DeepEpChunks* deepep_chunks(std::uint32_t ranks);
/// "2, 4, 8, 16, ...", the numbers of ranks with a configuration.
std::string deepep_ranks();
/// Buffers on a GPU for NVLink and for the network (csrc/legacy/config.hpp, get_nvl_buffer_size_hint and
/// get_rdma_buffer_size_hint). @pre deepep_chunks(ranks)
Bytes deepep_buffer_bytes(std::uint32_t ranks, Bytes hidden_bytes);

}  // namespace railyard::collective
