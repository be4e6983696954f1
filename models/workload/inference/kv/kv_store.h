// The room `kv` is the bookkeeping of an instance's KV cache: which blocks are held, by content, and which are free. A KvStore
// has sequences with blocks of a BlockPool; SequenceMemory is what an engine tells about memory that is not paged. The scheduler
// asks both; nobody else changes them. Bytes are allocated, and moved, by the rooms above. Plain C++; no SystemC.
//
// The KV cache of an instance as its scheduler sees it: sequences take blocks of tokens, fill them, and give them back; a block
// that is full can be found by a later sequence with the same beginning. Blocks are in GPU memory (BlockPool); there can be copies of
// them in host memory, which several stores may share, and of those on disks (KvTier). KV on a disk, or in host memory of other servers
// (KvPeers), goes through its own host memory (HostReads).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/units.h"
#include "workload/inference/kv/block_pool.h"
#include "workload/inference/kv/host_reads.h"
#include "workload/inference/kv/kv_peers.h"
#include "workload/inference/kv/kv_tier.h"
#include "workload/inference/requests/request.h"

namespace railyard::workload::inference {

/// What a store has below GPU memory.
struct KvBelow {
  std::uint32_t store = 0;        ///< its number: each attention replica of each instance has one
  std::shared_ptr<KvTier> host;   ///< null: none
  bool outlives = false;          ///< host memory keeps its blocks if the instance fails
  std::uint64_t disk_blocks = 0;  ///< with host memory only; 0: none
  KvPeers* peers = nullptr;  ///< whose host memory it may read, and others its own; with host memory only; null: none
};

class KvStore {
 public:
  /// @param blocks           including the reserved block
  /// @param caches_prefixes  whether sequences find each other's blocks
  KvStore(std::uint32_t blocks, std::uint32_t block_tokens, bool caches_prefixes, KvBelow below = {})
      : pool_(blocks), block_tokens_(block_tokens), caches_prefixes_(caches_prefixes), below_(std::move(below)) {
    if (below_.disk_blocks > 0) disk_.emplace(below_.disk_blocks);
    if (below_.peers != nullptr) below_.peers->add(below_.store, *below_.host);
  }
  KvStore(const KvStore&) = delete;

  /// The blocks of a sequence.
  class Sequence {
   public:
    /// @param number  different from that of every other sequence
    Sequence(std::uint32_t number, std::uint64_t prompt_tokens, RequestContent content)
        : number_(number), prompt_(prompt_tokens), content_(std::move(content)) {}
    std::uint64_t blocks() const { return blocks_.size(); }
    const std::vector<BlockPool::Block>& places() const { return blocks_; }

   private:
    friend class KvStore;
    std::uint32_t number_;
    std::uint64_t prompt_;
    RequestContent content_;
    std::vector<BlockPool::Block> blocks_;
    std::size_t filled_ = 0;                    ///< blocks with content
    std::vector<BlockPool::Content> contents_;  ///< of the first blocks, as far as they were needed
  };
  /// The first blocks of a sequence, as far as they are here.
  using Prefix = std::vector<BlockPool::Block>;

  std::uint64_t blocks_for(std::uint64_t tokens) const { return ceil_div(tokens, block_tokens_); }
  std::uint64_t tokens(const Prefix& prefix) const { return prefix.size() * block_tokens_; }
  const BlockPool& pool() const { return pool_; }
  void follow(BlockPool::Listener& listener) { pool_.follow(listener); }
  void follow_copies(BlockPool::Listener& in_host, BlockPool::Listener& on_disks) {
    if (below_.host) below_.host->follow(in_host);
    if (disk_) disk_->follow(on_disks);
  }

  /// The longest beginning of the sequence's `known` tokens that is here, without the last token: the model produces a token only
  /// from the one before.
  Prefix find(Sequence& s, std::uint64_t known);
  /// Null: nothing of it is there.
  KvTier* host() { return below_.host.get(); }
  std::uint32_t number() const { return below_.store; }
  /// Of the blocks [first, last) of a sequence.
  KvTier::Contents contents(Sequence& s, std::size_t first, std::size_t last) const;
  /// Blocks that follow a prefix of the sequence's `known` tokens, without the last token, and are in host memory.
  std::uint64_t find_in_host(Sequence& s, const Prefix& prefix, std::uint64_t known);
  /// Reads from disks, or else from a peer, as far as host memory has room, those blocks behind a prefix that are there and not in host
  /// memory. A block that is in neither ends them. @return the read for which the sequence has to wait; none: there is nothing to wait
  /// for
  struct Awaited {
    std::uint32_t read = 0;
    std::uint64_t blocks = 0;  ///< of a new read; 0: another sequence has begun it
    KvTier::Shares peers;      ///< from whom it reads them; none: disks
  };
  std::optional<Awaited> read(Sequence& s, const Prefix& prefix, std::uint64_t known);
  HostReads& reads() { return reads_; }
  /// A read is over, and its blocks are in host memory. @return requests that have waited for it
  std::vector<std::uint32_t> end_read(std::uint32_t number);
  /// These blocks have come to host memory. @return those that are written to disks from now on
  KvTier::Contents stored(const KvTier::Contents& contents);
  void written(const KvTier::Contents& contents);
  /// Blocks of a prefix that are free now, and will not be.
  std::uint64_t free_blocks(const Prefix& prefix) const;
  /// The sequence shares the blocks of its prefix. @pre it has no blocks
  void take(Sequence& s, Prefix prefix);
  /// The sequence takes blocks until it has as many as `tokens` tokens need. @return false if there are not enough; then none
  /// are taken
  bool grow(Sequence& s, std::uint64_t tokens);
  /// The sequence gives blocks back until it has as many as `tokens` tokens need. @pre these contain its full blocks
  void shrink(Sequence& s, std::uint64_t tokens);
  /// The first `tokens` tokens are computed and known: full blocks can be found.
  void fill(Sequence& s, std::uint64_t tokens);
  /// The content of all blocks is lost, and that of host memory unless it outlives this; disks keep what has been written.
  /// @pre no sequence has blocks
  void clear();
  /// All blocks of the sequence. Their content stays until they are taken.
  void give_back(Sequence& s);

 private:
  BlockPool::Content content(Sequence& s, std::size_t block) const;
  /// Begins a read of those of the blocks [first, last) that are not in host memory, nor on their way to it.
  std::optional<Awaited> read(const KvTier::Contents& all, std::size_t first, std::size_t last, KvTier& from,
                              std::optional<KvPeers::Lender> lender);

  BlockPool pool_;
  std::uint32_t block_tokens_;
  bool caches_prefixes_;
  KvBelow below_;
  std::optional<KvTier> disk_;
  HostReads reads_;
};

}  // namespace railyard::workload::inference
