#include "gpu/kernels/attention_mixed.h"

#include <algorithm>

#include "base/units.h"
#include "gpu/kernels/attention_blocks.h"
#include "gpu/kernels/device_terms.h"

namespace railyard::gpu {
namespace {

/// Blocks of one head in the grid that have no rows.
std::uint64_t empty_blocks(const GpuDatasheet& gpu, AttentionLibrary library,
                           const std::vector<AttentionSequence>& prefills,
                           const std::vector<AttentionSequence>& decodes) {
  std::uint64_t longest = 0, sequences = 0, blocks = 0;
  for (const auto* kind : {&prefills, &decodes}) {
    for (const AttentionSequence& s : *kind) {
      const std::uint64_t own = ceil_div(s.tokens, query_rows(gpu, library));
      longest = std::max(longest, own);
      blocks += own;
      ++sequences;
    }
  }
  return longest * sequences - blocks;
}

/// Times that KV of the decodes is read: between 1 and the size of a group.
double kv_reads(const GpuDatasheet& gpu, const AttentionHeads& heads, const MixedAttention& parts) {
  const double group = static_cast<double>(heads.query) / heads.kv;
  const double blocks_per_head = static_cast<double>(parts.prefill.ctas + parts.rows.ctas) / heads.query;
  const double apart = std::clamp(group * blocks_per_head / gpu.sm.count, 1.0, group);
  return 1 + (apart - 1) * missed_ratio(gpu, parts.decode.bytes / heads.kv);
}

}  // namespace

MixedAttention mixed_attention(const GpuDatasheet& gpu, const AttentionHeads& heads,
                               const std::vector<AttentionSequence>& prefills,
                               const std::vector<AttentionSequence>& decodes) {
  MixedAttention parts;
  parts.decode = decode_attention_time(gpu, heads, decodes);
  if (prefills.empty()) return parts;
  const bool packs = asynchronous_tensor_cores(gpu), splits = packs || decodes.empty();
  parts.prefill = prefill_attention_time(gpu, heads, prefills, true, AttentionPass::forward, splits);
  if (decodes.empty()) return parts;
  AttentionHeads row_heads = heads;
  if (packs) row_heads.query = heads.kv;
  parts.rows = prefill_attention_time(gpu, row_heads, decodes, true, AttentionPass::forward, packs);
  if (packs) return parts;
  parts.kv_reads = kv_reads(gpu, heads, parts);
  parts.empty_block_seconds = gpu.kernels.mixed_attention.empty_block_us * kSecondsPerUs * heads.query *
                              static_cast<double>(empty_blocks(gpu, heads.library, prefills, decodes));
  return parts;
}

KernelTime MixedAttention::time(const GpuDatasheet& gpu) const {
  if (prefill.ctas == 0) return decode;
  if (decode.ctas == 0) return prefill;
  KernelTime time = prefill;
  time.flops += decode.flops;
  time.tensor_j += decode.tensor_j;
  time.bytes += decode.bytes * kv_reads;
  time.l2_bytes += rows.l2_bytes;
  time.hbm_seconds += decode.hbm_seconds * kv_reads;
  time.longest_cta_seconds = std::max(prefill.longest_cta_seconds, rows.longest_cta_seconds);
  time.sm_seconds += rows.sm_seconds + empty_block_seconds;
  time.tail_ratio = gpu.kernels.mixed_attention.tail_ratio;
  time.overlap_exponent = gpu.kernels.mixed_attention.overlap_exponent;
  finish_attention(time, gpu, prefill.ctas + rows.ctas);
  const double least = std::max(prefill.seconds, decode.seconds);
  return time.seconds < least ? time.taking(least) : time;
}

}  // namespace railyard::gpu
