// Blocks of KV outside of the GPUs, in host memory or on disks, found by their content. A block is here when it has been written; the
// least recently used ones make room for new ones, unless they are being read or written. Rules of vLLM's CPU offload (v1/kv_offload:
// lookup, prepare_load, prepare_store, LRU policy). Plain C++; no SystemC.
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

  /// @param blocks  at most
  explicit KvTier(std::uint64_t blocks) : total_(blocks) {}

  /// Call before blocks are written.
  void follow(BlockPool::Listener& listener) { listener_ = &listener; }

  std::uint64_t total() const { return total_; }
  std::uint64_t held() const { return blocks_.size(); }

  /// How many of the contents are here, one after the other, from number `first` on.
  std::size_t find(const Contents& contents, std::size_t first) const;
  bool has(Content content) const { return find({content}, 0) == 1; }
  /// They have been asked for: the first one was used last.
  void touch(const Contents& contents);
  /// Blocks that find() has counted are read, until end_read().
  void begin_read(const Contents& contents);
  void end_read(const Contents& contents);
  /// Makes room for those of the contents that are not here. @return these, which end_write() makes findable; none if there is no
  /// room for all of them
  Contents begin_write(const Contents& contents);
  void end_write(const Contents& contents);
  /// Nothing is here any more, nor is being written. @pre its own instance reads nothing
  void clear();
  /// How often everything has been lost.
  std::uint32_t losses() const { return losses_; }
  /// Reads end, and blocks that are being written are not here.
  void interrupt();

 private:
  struct Block {
    std::list<Content>::iterator place;
    std::uint32_t users = 0;  ///< reads, or the write
    bool is_written = false;
  };

  std::uint64_t total_;
  std::uint32_t losses_ = 0;
  BlockPool::Listener* listener_ = nullptr;
  std::list<Content> by_use_;  ///< the least recently used one first
  std::unordered_map<Content, Block> blocks_;
};

}  // namespace railyard::workload::inference
