// Blocks of KV outside of the GPUs, in host memory or on disks, found by their content. A block is here when it has been written; the
// least recently used ones make room for new ones, unless they are being read or written. Rules of vLLM's CPU offload (v1/kv_offload:
// lookup, prepare_load, prepare_store, LRU policy). Several stores may share one: each has a number, and a block says which store has
// written it. Plain C++; no SystemC.
#pragma once

#include <cstdint>
#include <list>
#include <unordered_map>
#include <vector>

#include "workload/inference/kv/block_pool.h"

namespace railyard::workload::inference {

class KvTier {
 public:
  using Content = BlockPool::Content;
  using Contents = std::vector<Content>;

  /// Blocks that a store has written.
  struct Share {
    std::uint32_t writer = 0;
    std::uint64_t blocks = 0;
  };
  using Shares = std::vector<Share>;

  /// @param blocks  at most
  explicit KvTier(std::uint64_t blocks) : total_(blocks) {}

  /// Call before blocks are written.
  void follow(BlockPool::Listener& listener) { listeners_.push_back(&listener); }

  std::uint64_t total() const { return total_; }
  std::uint64_t held() const { return blocks_.size(); }

  /// How many of the contents are here, one after the other, from number `first` on.
  std::size_t find(const Contents& contents, std::size_t first) const;
  bool has(Content content) const { return find({content}, 0) == 1; }
  /// Which stores have written these blocks, in the order of their first ones. @pre they are here
  Shares shares(const Contents& contents) const;
  /// They have been asked for: the first one was used last.
  void touch(const Contents& contents);
  /// Blocks that find() has counted are read, until end_read().
  void begin_read(const Contents& contents);
  void end_read(const Contents& contents);
  /// Makes room for those of the contents that are not here. @return these, which end_write() makes findable; none if there is no
  /// room for all of them
  Contents begin_write(const Contents& contents, std::uint32_t writer = 0);
  void end_write(const Contents& contents);
  /// Nothing is here any more, nor is being written. @pre its own instance reads nothing
  void clear();
  /// How often everything has been lost.
  std::uint32_t losses() const { return losses_; }
  /// Reads end, and blocks that are being written are not here. @return these
  Contents interrupt();
  /// Blocks that this store is writing are not here; what it has written stays.
  void abandon(std::uint32_t writer);

 private:
  struct Block {
    std::list<Content>::iterator place;
    std::uint32_t users = 0;  ///< reads, or the write
    std::uint32_t writer = 0;
    bool is_written = false;
  };

  /// Blocks that are being written, of all stores or of one, are not here. @return these
  template <typename Which>
  Contents remove_unwritten(const Which& which);

  std::uint64_t total_;
  std::uint32_t losses_ = 0;
  std::vector<BlockPool::Listener*> listeners_;
  std::list<Content> by_use_;  ///< the least recently used one first
  std::unordered_map<Content, Block> blocks_;
};

}  // namespace railyard::workload::inference
