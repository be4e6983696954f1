// Which stores may read each other's host memory over the network, and what is there. As vLLM's tiered offloading reads from peers
// (v1/kv_offload/tiering), and llm-d between replicas. What a store has is known at once. Plain C++; no SystemC.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "workload/inference/kv/kv_tier.h"

namespace railyard::workload::inference {

class KvPeers {
 public:
  /// @param least_tokens  a reader asks only for so many
  KvPeers(std::size_t stores, std::uint64_t least_tokens)
      : hosts_(stores), peers_(stores), least_tokens_(least_tokens) {}

  void allow(std::uint32_t reader, std::uint32_t peer) { peers_[reader].push_back(peer); }
  void add(std::uint32_t store, KvTier& host) { hosts_[store] = &host; }
  const std::vector<std::uint32_t>& of(std::uint32_t reader) const { return peers_[reader]; }
  std::uint64_t least_tokens() const { return least_tokens_; }

  /// A store whose blocks are being read.
  struct Lender {
    std::uint32_t store = 0;
    KvTier* host = nullptr;
    std::uint32_t losses = 0;  ///< of its host memory when the read began
    /// The read is over. If the lender has failed meanwhile, it does not have the blocks any more.
    void end(const KvTier::Contents& contents) const {
      if (host->losses() == losses) host->end_read(contents);
    }
  };
  struct Found {
    Lender lender;
    std::size_t blocks = 0;
  };
  /// The peer that has most of the contents, one after the other, from number `first` on; of equal ones, the first one.
  /// @return none: no peer has so many that it is worth a read
  std::optional<Found> find(std::uint32_t reader, const KvTier::Contents& contents, std::size_t first,
                            std::uint32_t block_tokens) const {
    Found best;
    for (const std::uint32_t peer : peers_[reader]) {
      if (hosts_[peer] == nullptr) continue;
      const std::size_t blocks = hosts_[peer]->find(contents, first);
      if (blocks > best.blocks) best = {{peer, hosts_[peer], hosts_[peer]->losses()}, blocks};
    }
    if (best.blocks == 0 || best.blocks * block_tokens < least_tokens_) return {};
    return best;
  }

 private:
  std::vector<KvTier*> hosts_;                     ///< by store; null: it has none
  std::vector<std::vector<std::uint32_t>> peers_;  ///< by reader
  std::uint64_t least_tokens_;
};

}  // namespace railyard::workload::inference
