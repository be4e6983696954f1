// Paged KV cache of an instance, as in vLLM V1 (v1/core/block_pool.py): equal blocks of tokens with counted references,
// and an index of full blocks by their content. A block without references keeps its content until it is taken again,
// so a later request with the same prefix, or a preempted request, finds it.
//
// Free blocks are taken in the order in which they were released. Block 0 is reserved, as vLLM's null block. Plain C++; no SystemC.
#pragma once

#include <cstdint>
#include <vector>

#include "workload/inference/kv/content_index.h"

namespace railyard::workload::inference {

class BlockPool {
 public:
  using Block = std::uint32_t;
  /// Content of a full block and of all blocks before it.
  using Content = ContentIndex::Content;
  static constexpr Block kNone = 0;

  class Listener {
   public:
    /// The first block with this content is full; the last one has been taken again.
    virtual void on_stored(Content content) = 0;
    virtual void on_removed(Content content) = 0;

   protected:
    ~Listener() = default;
  };

  /// @param blocks  including the reserved block, as vLLM counts num_gpu_blocks. @pre blocks > 0
  explicit BlockPool(std::uint32_t blocks);

  /// Call before blocks are filled.
  void follow(Listener& listener) { listener_ = &listener; }

  /// Blocks without the reserved block.
  std::uint32_t total() const { return total_; }
  /// Blocks without references, with or without content.
  std::uint32_t free() const { return free_; }
  std::uint32_t held() const { return total() - free_; }

  /// A block with this content, the first of several; kNone if there is none.
  Block find(Content content) const;
  std::uint32_t references(Block block) const { return blocks_[block].references; }
  /// Adds a reference to a block that find() returned.
  void share(Block block);
  /// Takes a free block and forgets its content. @pre free() > 0
  Block take();
  /// The block is full and has this content. @pre the block has a reference and no content
  void fill(Block block, Content content);
  /// Forgets the content of all blocks. @pre held() is 0
  void clear();
  /// Removes a reference. The block becomes the last free block if this was its last reference.
  void release(Block block);

 private:
  struct State {
    Content content = 0;
    std::uint32_t references = 0;
    Block before = kNone, after = kNone;            ///< neighbours in the list of free blocks
    Block same_before = kNone, same_after = kNone;  ///< neighbours among blocks with the same content
    bool is_full = false;
  };
  void append(Block block);
  void unlink(Block block);
  void forget(Block block);

  std::uint32_t total_;
  std::vector<State> blocks_;  ///< that have been taken at least once; blocks behind them come first
  ContentIndex index_;
  Block first_ = kNone, last_ = kNone;
  std::uint32_t free_;
  Listener* listener_ = nullptr;
};

}  // namespace railyard::workload::inference
