#include "gpu/kernels/attention.h"

#include <algorithm>
#include <cmath>

#include "base/units.h"

namespace railyard::gpu {
namespace {

constexpr std::uint64_t kPrefillSplitKeys = 1024; // least keys in one part of a block's context
constexpr std::uint64_t kDecodeSplitKeys = 512;
constexpr double kTailShare = 0.5;                // of the longest block, that the last blocks of a full grid run alone
constexpr double kBytesInFlight = 24576;          // that one decode block keeps on its way from HBM (Little's law)
constexpr double kQueryBytes = 2;                 // queries and outputs stay in 16 bits
constexpr double kFlopsPerPair = 4;               // per query-key pair and head dimension: score and value multiply-adds

/// Query rows of one thread block: FlashAttention's 128 at head size 128, half where shared memory is small (Ada,
/// GA102).
std::uint64_t query_rows(const GpuDatasheet& gpu) {
  constexpr std::uint32_t kSharedMemoryKib = 128;
  return gpu.sm.shared_memory_kib < kSharedMemoryKib ? 64 : 128;
}

/// A block's context cut into parts for SMs that would idle, none shorter than is worth it.
struct Split {
  std::uint64_t parts, keys;  // keys of the longest part
};

Split split_context(std::uint64_t keys, std::uint64_t room, std::uint64_t least) {
  const std::uint64_t longest = std::min(keys, std::max(least, ceil_div(keys, std::max<std::uint64_t>(1, room))));
  return {ceil_div(keys, longest), longest};
}

void fill_grid(KernelTime& time, const GpuDatasheet& gpu, std::uint64_t ctas) {
  time.ctas = ctas;
  time.waves = static_cast<std::uint32_t>(ceil_div(ctas, gpu.sm.count));
  time.tail_efficiency = static_cast<double>(ctas) / (static_cast<double>(time.waves) * gpu.sm.count);
  time.sms = static_cast<std::uint32_t>(std::min<std::uint64_t>(ctas, gpu.sm.count));
}

KernelLimit limit_of(double fixed, double tensor, double hbm) {
  if (fixed >= tensor && fixed >= hbm) return KernelLimit::launch;
  return tensor >= hbm ? KernelLimit::tensor : KernelLimit::hbm;
}

}  // namespace

double causal_attention_flops(const AttentionHeads& heads, std::uint64_t tokens, std::uint64_t kv_start) {
  const double t = static_cast<double>(tokens);
  const double pairs = t * static_cast<double>(kv_start) + t * (t + 1) / 2;
  return kFlopsPerPair * heads.query * heads.dim * pairs;
}

KernelTime prefill_attention_time(const GpuDatasheet& gpu, const AttentionHeads& heads, std::uint64_t tokens,
                                  std::uint64_t kv_start) {
  KernelTime time;
  if (tokens == 0 || heads.query == 0) return time;
  const std::uint64_t rows = query_rows(gpu), blocks = ceil_div(tokens, rows);
  const double row_flops = kFlopsPerPair * heads.dim * static_cast<double>(rows);
  const double overhead_keys = gpu.kernel.attention_half_tokens / 2;
  double total = 0;  // FLOPs of one head, masked and padded ones included
  for (std::uint64_t block = 1; block <= blocks; ++block)
    total += row_flops * (static_cast<double>(kv_start + std::min(tokens, block * rows)) + overhead_keys);

  const std::uint64_t room = gpu.sm.count / (blocks * heads.query);
  const Split split = split_context(kv_start + tokens, room, kPrefillSplitKeys);
  const std::uint64_t grid = blocks * heads.query * split.parts;
  const double rate = gpu.kernel.attention_tflops * 1e12;
  const double alone = row_flops * (static_cast<double>(split.keys) + overhead_keys) / (rate / gpu.sm.count);

  const double query_bytes = 2.0 * static_cast<double>(tokens) * heads.query * heads.dim * kQueryBytes;
  const double kv_bytes = 2.0 * static_cast<double>(kv_start + tokens) * heads.kv * heads.dim * bytes_of(heads.kv_dtype);
  time.bytes = query_bytes + kv_bytes;
  time.hbm_seconds = time.bytes / (gpu.hbm.stream_ratio * gpu.hbm.gb_per_s * 1e9);

  time.fixed_seconds = gpu.kernel.attention_fixed_us * kSecondsPerUs;
  time.longest_cta_seconds = alone;
  time.sm_seconds = total * heads.query * gpu.sm.count / rate;
  time.tail_ratio = kTailShare;
  time.flops = causal_attention_flops(heads, tokens, kv_start);
  fill_grid(time, gpu, grid);
  time.limit = limit_of(time.fixed_seconds, time.cta_seconds_on(gpu.sm.count), time.hbm_seconds);
  time.seconds = time.seconds_on({static_cast<double>(gpu.sm.count)});
  return time;
}

KernelTime decode_attention_time(const GpuDatasheet& gpu, const AttentionHeads& heads,
                                 const std::vector<std::uint64_t>& context) {
  KernelTime time;
  if (context.empty() || heads.kv == 0) return time;
  std::uint64_t tokens = 0, longest = 0;
  for (const std::uint64_t keys : context) {
    tokens += keys;
    longest = std::max(longest, keys);
  }
  if (tokens == 0) return time;
  const std::uint64_t blocks = context.size() * heads.kv;
  constexpr std::uint32_t kBlocksPerSm = 2;
  const Split split = split_context(longest, kBlocksPerSm * gpu.sm.count / blocks, kDecodeSplitKeys);
  const double token_bytes = 2.0 * heads.dim * bytes_of(heads.kv_dtype);
  const double rate = gpu.kernel.decode_attention_ratio * gpu.hbm.gb_per_s * 1e9;
  time.bytes = token_bytes * heads.kv * static_cast<double>(tokens) +
               2.0 * static_cast<double>(context.size()) * heads.query * heads.dim * kQueryBytes;
  const double piece = token_bytes * static_cast<double>(split.keys);
  const double block_rate = kBytesInFlight / (gpu.hbm.read_latency_ns * 1e-9);
  const std::uint64_t grid = blocks * split.parts;

  time.fixed_seconds = gpu.kernel.decode_attention_fixed_us * kSecondsPerUs;
  time.hbm_seconds = time.bytes / rate;
  time.longest_cta_seconds = piece / block_rate;
  time.ctas_per_sm = kBlocksPerSm;
  time.sm_seconds = time.bytes / (kBlocksPerSm * block_rate);
  time.flops = kFlopsPerPair * heads.query * heads.dim * static_cast<double>(tokens);
  fill_grid(time, gpu, grid);
  time.limit = limit_of(time.fixed_seconds, 0, time.hbm_seconds);
  time.seconds = time.seconds_on({static_cast<double>(gpu.sm.count)});
  return time;
}

}  // namespace railyard::gpu
