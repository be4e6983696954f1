// Time of attention kernels on one GPU, for the heads that one tensor-parallel rank holds.
//
// Prefill: one thread block per (query head, 128 query rows), looping over the keys its rows may see; the last rows
// of a causal chunk see the most. A chunk with few heads or rows cannot use all SMs, unless its context is long enough to be
// split. Each query-key pair costs products, and an exponential, 16 of which an SM does in a clock (CUDA C++ Programming Guide,
// arithmetic instructions); 0.85 of their time adds to that of the products. With heads of d numbers an SM's rate is
// attention_ratio x tensor peak x d / (d + e), e = 0.85 x tensor FLOP per clock / 64: narrow heads are slower for it, wide ones
// faster. attention_ratio is the datasheet's measured efficiency (FlashAttention-2 on Ampere and Ada, FlashAttention-3 on Hopper).
//
// Backward: five products of each pair for the forward pass's two, at a rate of its own.
//
// Sliding window: a query sees the last `window` keys, its own included. Blocks of a prompt begin at the first key that their
// first row sees; decode reads the window's keys alone.
//
// Decode: one query row per request (or a few), KV read once from HBM, split along the context (flash-decoding) until the SMs
// are busy. Where many query heads share a KV head (multi-head latent attention), tensor time may bind instead.
#pragma once

#include <cstdint>
#include <vector>

#include "base/data_type.h"
#include "gpu/datasheet.h"
#include "gpu/kernels/kernel_time.h"

namespace railyard::gpu {

struct AttentionHeads {
  std::uint32_t query = 0;  ///< query heads on this rank
  std::uint32_t kv = 0;     ///< KV heads on this rank (replicated ones count)
  std::uint32_t dim = 0;    ///< of a head
  DataType kv_dtype = DataType::bf16;
  std::uint32_t value_dim = 0;  ///< of a value vector; 0: dim
  bool latent = false;  ///< values are the first value_dim numbers of the keys, read once (multi-head latent attention)
  std::uint32_t window = 0;  ///< keys that a query sees, its own included; 0: all before it
};

/// `tokens` queries of one sequence after `kv_start` keys that are there already.
struct AttentionSequence {
  std::uint64_t tokens = 0, kv_start = 0;
};

/// Decoding sequences whose `context` holds their lengths, the new token included.
std::vector<AttentionSequence> one_token_each(const std::vector<std::uint64_t>& context);

/// Query-key pairs of a causal chunk: each query with its own key and those before it, or the last `window` of them.
double causal_pairs(const AttentionSequence& sequence, std::uint32_t window = 0);

/// Useful FLOPs of attention for queries at positions [kv_start, kv_start + tokens): scores and values of each query against
/// the keys 0..itself (or its window) if causal, else against all kv_start + tokens. Causal ones of chunks sum to the whole prompt's exactly.
double attention_flops(const AttentionHeads& heads, const AttentionSequence& sequence, bool causal = true);

enum class AttentionPass : std::uint8_t { forward, backward };

/// Chunks of prompts in one kernel: the tokens of each against the kv_start keys before them and, causally, their own.
KernelTime prefill_attention_time(const GpuDatasheet& gpu, const AttentionHeads& heads,
                                  const std::vector<AttentionSequence>& sequences, bool causal = true,
                                  AttentionPass pass = AttentionPass::forward);

/// One step of a batch: the last `tokens` (one, or a few speculated) of each sequence against its cached keys and their own.
/// Without `split` one thread block reads all of a sequence's KV head, as FlashAttention-2 does where heads are not grouped.
KernelTime decode_attention_time(const GpuDatasheet& gpu, const AttentionHeads& heads,
                                 const std::vector<AttentionSequence>& sequences, bool split = true);

}  // namespace railyard::gpu
