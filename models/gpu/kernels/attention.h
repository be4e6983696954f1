// Time of attention kernels on one GPU, for the heads that one tensor-parallel rank holds.
//
// Prefill: one thread block per (query head, 128 query rows), looping over the keys its rows may see; the last rows
// of a causal chunk see the most. Its rate follows the datasheet's measured saturation (FlashAttention-2 on Ampere
// and Ada, FlashAttention-3 on Hopper), shared out over the SMs: a chunk with few heads or rows cannot use them all,
// unless its context is long enough to be split.
//
// Decode: one query row per request, KV read once from HBM, split along the context (flash-decoding) until the SMs
// are busy.
#pragma once

#include <cstdint>
#include <vector>

#include "base/data_type.h"
#include "gpu/datasheet.h"
#include "gpu/kernels/kernel_time.h"

namespace railyard::gpu {

struct AttentionHeads {
  std::uint32_t query = 0;     ///< query heads on this rank
  std::uint32_t kv = 0;        ///< KV heads on this rank (replicated ones count)
  std::uint32_t dim = 0;       ///< of a head
  DataType kv_dtype = DataType::bf16;
  std::uint32_t value_dim = 0; ///< of a value vector; 0: dim
  bool latent = false;         ///< values are the first value_dim numbers of the keys, read once (multi-head latent attention)
};

/// `tokens` queries of one sequence after `kv_start` keys that are there already.
struct AttentionSequence {
  std::uint64_t tokens = 0, kv_start = 0;
};

/// Useful FLOPs of causal attention for queries at positions [kv_start, kv_start + tokens): scores and values of each
/// query against the keys 0..itself. Sums over chunks to the whole prompt's exactly.
double causal_attention_flops(const AttentionHeads& heads, std::uint64_t tokens, std::uint64_t kv_start);

/// A chunk of one prompt: `tokens` queries against the `kv_start` keys of the chunks before it and, causally, its own.
KernelTime prefill_attention_time(const GpuDatasheet& gpu, const AttentionHeads& heads, std::uint64_t tokens,
                                  std::uint64_t kv_start);

/// One step of a batch: one query per request, against `context` keys of each.
KernelTime decode_attention_time(const GpuDatasheet& gpu, const AttentionHeads& heads,
                                 const std::vector<std::uint64_t>& context);

}  // namespace railyard::gpu
