#include "gpu/kernels/attention.h"

#include <algorithm>
#include <cmath>

#include "base/units.h"

namespace railyard::gpu {
namespace {

constexpr std::uint64_t kLeastSplitTokens = 512;  // of context in one split of flash-decoding
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
  const double pair_flops = kFlopsPerPair * heads.dim;
  const double overhead_keys = gpu.kernel.attention_half_tokens / 2;
  double total = 0, longest = 0;  // FLOPs, masked and padded ones included, of one head
  for (std::uint64_t block = 0; block < blocks; ++block) {
    const double keys = static_cast<double>(kv_start + std::min(tokens, (block + 1) * rows));
    const double work = pair_flops * static_cast<double>(rows) * (keys + overhead_keys);
    total += work;
    longest = std::max(longest, work);
  }
  const double rate = gpu.kernel.attention_tflops * 1e12;
  const double alone = longest / (rate / gpu.sm.count);
  const double grid = static_cast<double>(blocks) * heads.query;
  const double tail = std::max(0.0, 1 - gpu.sm.count / grid) * kTailShare * alone;
  const double tensor = std::max(alone, total * heads.query / rate + tail);

  const double query_bytes = 2.0 * static_cast<double>(tokens) * heads.query * heads.dim * kQueryBytes;
  const double kv_bytes = 2.0 * static_cast<double>(kv_start + tokens) * heads.kv * heads.dim * bytes_of(heads.kv_dtype);
  time.bytes = query_bytes + kv_bytes;
  const double hbm = time.bytes / (gpu.hbm.stream_ratio * gpu.hbm.gb_per_s * 1e9);

  time.fixed_seconds = gpu.kernel.attention_fixed_us * kSecondsPerUs;
  time.seconds = time.fixed_seconds + std::max(tensor, hbm);
  time.limit = limit_of(time.fixed_seconds, tensor, hbm);
  time.flops = causal_attention_flops(heads, tokens, kv_start);
  fill_grid(time, gpu, blocks * heads.query);
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
  const std::uint64_t blocks = context.size() * heads.kv;
  const std::uint64_t wanted = std::max<std::uint64_t>(1, 2ull * gpu.sm.count / blocks);
  const std::uint64_t split = std::min(wanted, std::max<std::uint64_t>(1, ceil_div(longest, kLeastSplitTokens)));
  const double token_bytes = 2.0 * heads.dim * bytes_of(heads.kv_dtype);
  const double rate = gpu.kernel.decode_attention_ratio * gpu.hbm.gb_per_s * 1e9;
  time.bytes = token_bytes * heads.kv * static_cast<double>(tokens) +
               2.0 * static_cast<double>(context.size()) * heads.query * heads.dim * kQueryBytes;
  const double piece = token_bytes * static_cast<double>(ceil_div(longest, split));
  const double block_rate = kBytesInFlight / (gpu.hbm.read_latency_ns * 1e-9);
  const double hbm = std::max(time.bytes / rate, piece / block_rate);

  time.fixed_seconds = gpu.kernel.decode_attention_fixed_us * kSecondsPerUs;
  time.seconds = time.fixed_seconds + hbm;
  time.limit = limit_of(time.fixed_seconds, 0, hbm);
  time.flops = kFlopsPerPair * heads.query * heads.dim * static_cast<double>(tokens);
  fill_grid(time, gpu, blocks * split);
  return time;
}

}  // namespace railyard::gpu
