// The room `kv` is the bookkeeping of an instance's KV cache: which blocks are held, by content, and which are free. A KvStore
// has sequences with blocks of a BlockPool; SequenceMemory is what an engine tells about memory that is not paged. The scheduler
// asks both; nobody else changes them. Bytes are allocated, and moved, by the rooms above. Plain C++; no SystemC.
//
// The KV cache of an instance as its scheduler sees it: sequences take blocks of tokens, fill them, and give them back; a block
// that is full can be found by a later sequence with the same beginning. Blocks are in GPU memory (BlockPool); there can be copies of
// them in host memory (HostTier).
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "base/units.h"
#include "workload/inference/kv/block_pool.h"
#include "workload/inference/kv/host_tier.h"
#include "workload/inference/requests/request.h"

namespace railyard::workload::inference {

class KvStore {
 public:
  /// @param blocks           including the reserved block
  /// @param caches_prefixes  whether sequences find each other's blocks
  /// @param host_blocks      in host memory; 0: none
  KvStore(std::uint32_t blocks, std::uint32_t block_tokens, bool caches_prefixes, std::uint64_t host_blocks = 0)
      : pool_(blocks), block_tokens_(block_tokens), caches_prefixes_(caches_prefixes) {
    if (host_blocks > 0) host_.emplace(host_blocks);
  }

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

  /// The longest beginning of the sequence's `known` tokens that is here, without the last token: the model produces a token only
  /// from the one before.
  Prefix find(Sequence& s, std::uint64_t known);
  /// Null: nothing of it is there.
  HostTier* host() { return host_ ? &*host_ : nullptr; }
  /// Of the blocks [first, last) of a sequence.
  HostTier::Contents contents(Sequence& s, std::size_t first, std::size_t last) const;
  /// Blocks that follow a prefix of the sequence's `known` tokens, without the last token, and are in host memory.
  std::uint64_t find_in_host(Sequence& s, const Prefix& prefix, std::uint64_t known);
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
  /// The content of all blocks is lost, and that of host memory. @pre no sequence has blocks
  void clear() {
    pool_.clear();
    if (host_) host_->clear();
  }
  /// All blocks of the sequence. Their content stays until they are taken.
  void give_back(Sequence& s);

 private:
  BlockPool::Content content(Sequence& s, std::size_t block) const;

  BlockPool pool_;
  std::uint32_t block_tokens_;
  bool caches_prefixes_;
  std::optional<HostTier> host_;
};

}  // namespace railyard::workload::inference
