// Time of attention kernels on one GPU, for the heads that one tensor-parallel rank holds.
//
// Which kernel runs, and what its thread blocks do, is in attention_kernels.h.
//
// Prefill: one thread block per (query head, 128 query rows) loops over the keys that its rows may see; the last rows
// of a causal chunk see the most. A chunk with few heads or rows cannot use all SMs, unless its context is long enough
// to be split. A block takes its kernel's clocks for each query-key pair, at the clock under load, and a fixed time:
// it waits for its queries and writes its outputs at the end. Queries, keys, values and outputs cross HBM meanwhile,
// partly hidden: a p-norm joins the two times. A persistent kernel hides them completely: the larger time counts.
//
// Backward: five products per pair instead of two in the forward pass, at a rate of its own.
//
// Sliding window: a query sees the last `window` keys, including its own. Thread blocks of a prompt begin at the first
// key that their first row sees; decode reads only the keys in the window.
//
// Decode: one or a few query rows per request. KV is read once from HBM, split along the context (flash-decoding) until
// all SMs are busy. A thread block reads at most the bytes that it has in flight in each loaded latency, and nothing
// while it starts and ends; these starts add up over the rounds of blocks. If many query heads share a KV head
// (multi-head latent attention, wide groups), tensor time may be the limit instead.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/data_type.h"
#include "gpu/kernels/kernel_time.h"

namespace railyard::gpu {

struct GpuDatasheet;

/// Whose kernels run.
enum class AttentionLibrary : std::uint8_t { flash, trtllm, cudnn };
constexpr std::array<const char*, 3> kAttentionLibraryNames{"flash", "trtllm", "cudnn"};
constexpr const char* name_of(AttentionLibrary library) {
  return kAttentionLibraryNames[static_cast<std::size_t>(library)];
}

struct AttentionHeads {
  std::uint32_t query = 0;  ///< query heads on this rank
  std::uint32_t kv = 0;     ///< KV heads on this rank, including replicated heads
  std::uint32_t dim = 0;    ///< size of a head
  DataType kv_dtype = DataType::bf16;
  std::uint32_t value_dim = 0;  ///< size of a value vector; 0: dim
  bool latent = false;  ///< values are the first value_dim numbers of the keys, read once (multi-head latent attention)
  std::uint32_t window = 0;  ///< keys that a query sees, including its own; 0: all earlier keys
  AttentionLibrary library = AttentionLibrary::flash;
};

/// `tokens` queries of one sequence, after `kv_start` cached keys.
struct AttentionSequence {
  std::uint64_t tokens = 0, kv_start = 0;
};

/// One query per sequence. @param context  length of each sequence, including the new token
std::vector<AttentionSequence> one_token_each(const std::vector<std::uint64_t>& context);

/// Query-key pairs of a causal chunk: each query with its own key and all earlier ones, or with the last `window` keys.
double causal_pairs(const AttentionSequence& sequence, std::uint32_t window = 0);

/// Useful FLOPs of attention for queries at positions [kv_start, kv_start + tokens): scores and values. A causal query
/// uses the keys 0..itself (or its window); otherwise it uses all kv_start + tokens keys. The FLOPs of causal chunks
/// sum exactly to those of the whole prompt.
double attention_flops(const AttentionHeads& heads, const AttentionSequence& sequence, bool causal = true);

enum class AttentionPass : std::uint8_t { forward, backward };

/// Chunks of prompts in one kernel. The tokens of a chunk use the kv_start keys before them and, causally, their own
/// keys. Without `split`, one thread block visits all keys of its rows.
KernelTime prefill_attention_time(const GpuDatasheet& gpu, const AttentionHeads& heads,
                                  const std::vector<AttentionSequence>& sequences, bool causal = true,
                                  AttentionPass pass = AttentionPass::forward, bool split = true);

/// One decode step of a batch: the last `tokens` of each sequence (one, or a few speculated) use the cached keys and
/// their own. Without `split`, one thread block reads a KV head of a sequence completely, as FlashAttention-2 does for
/// ungrouped heads. With `kv_in_l2`, what L2 holds of the cache is not read from HBM.
KernelTime decode_attention_time(const GpuDatasheet& gpu, const AttentionHeads& heads,
                                 const std::vector<AttentionSequence>& sequences, bool split = true,
                                 bool kv_in_l2 = false);

}  // namespace railyard::gpu
