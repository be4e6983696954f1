// KV cache of an instance: the heads that each rank stores, and the memory of sequences whose KV is not paged. Such a
// sequence has memory for all its tokens on every rank, or on none. The scheduler (WholeSequences) decides which sequences have
// memory; they are allocated on the GPUs here.
#pragma once

#include <cstdint>
#include <vector>

#include "transformer/memory.h"
#include "transformer/model_shape.h"
#include "transformer/parameters.h"
#include "workload/inference/kv/sequence_memory.h"
#include "workload/jobs.h"

namespace railyard::workload::inference {

class KvCache final : public SequenceMemory {
 public:
  /// @param ranks  ranks[p*tp+t] is the rank of stage p and tensor-parallel place t
  KvCache(const transformer::ModelShape& model, const std::vector<transformer::Stage>& stages, std::uint32_t tp,
          const std::vector<Rank*>& ranks);

  struct HeadRange {
    std::uint32_t first, last;
    std::uint32_t count() const { return last - first; }
  };  ///< [first, last)
  /// KV heads on tensor-parallel rank t: an even share. If tp exceeds the number of heads, one replicated head.
  HeadRange heads(std::uint32_t t) const;
  /// Bytes of one token on a rank of stage p, if no window is full.
  Bytes bytes_per_token(std::uint32_t p) const { return bytes_per_token_[p]; }

  /// Memory for sequences that are not paged. Call when weights and activations have been allocated.
  /// @param limit_ratio  share of a GPU's memory that weights, activations and KV may fill
  /// @param new_tokens   tokens of a sequence that run in one pass
  void set_limit(double limit_ratio, std::uint64_t new_tokens);
  /// Blocks of a pool for such sequences: as many as the fullest stage has room for tokens, if no window is full.
  std::uint32_t blocks() const { return blocks_; }
  /// A token is a block. With windows, a sequence has the share of blocks that it fills of the stage that it fills most.
  std::uint32_t blocks(std::uint64_t tokens) const override;
  void on_held(std::uint64_t tokens) override;
  void on_freed(std::uint64_t tokens) override;
  /// Bytes held now on a rank of stage p.
  Bytes held(std::uint32_t p) const { return held_[p]; }

 private:
  Bytes sequence(std::uint32_t p, std::uint64_t tokens) const {
    return transformer::kv_bytes(model_, stages_[p], tp_, tokens, new_tokens_);
  }

  const transformer::ModelShape& model_;
  const std::vector<transformer::Stage>& stages_;
  std::uint32_t tp_;
  std::vector<Rank*> ranks_;
  std::vector<Bytes> bytes_per_token_, held_, room_;  // by stage
  std::uint32_t blocks_ = 0;
  std::uint64_t new_tokens_ = 1;
};

}  // namespace railyard::workload::inference
