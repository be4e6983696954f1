#include "gpu/kernels/attention.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/units.h"
#include "gpu/kernels/attention_blocks.h"
#include "gpu/kernels/attention_kernels.h"
#include "gpu/kernels/device_terms.h"

namespace railyard::gpu {
namespace {

constexpr double kQueryBytes = 2;  // queries and outputs stay in 16 bits
constexpr DataType kProductType = DataType::bf16;
constexpr double kBackwardWork = 2.5;  // products, relative to the forward pass: five, of which scores are one again

double value_dim(const AttentionHeads& heads) { return heads.value_dim > 0 ? heads.value_dim : heads.dim; }

/// FLOPs of a query-key pair: score and value.
double pair_flops(const AttentionHeads& heads) { return kFlopsPerProduct * (heads.dim + value_dim(heads)); }

/// Seconds of a query-key pair on one SM.
double pair_seconds(const GpuDatasheet& gpu, const AttentionHeads& heads) {
  const PrefillKernel& kernel = prefill_kernel(gpu, heads.library);
  return pair_clocks(gpu, kernel, (heads.dim + value_dim(heads)) / 2) /
         (gpu.kernel.attention_ratio * attention_clock_ratio(gpu) * gpu.clock_hz());
}

/// The context of a block, split into parts to use idle SMs, but not into parts below a minimum.
struct Split {
  std::uint64_t parts, keys;  // keys of the longest part
};

Split split_context(std::uint64_t keys, std::uint64_t room, std::uint64_t least) {
  const std::uint64_t longest = std::min(keys, std::max(least, ceil_div(keys, std::max<std::uint64_t>(1, room))));
  return {ceil_div(keys, longest), longest};
}

/// Keys before the window of the first query of a sequence; no query reads them.
std::uint64_t passed_keys(const AttentionSequence& s, std::uint32_t window) {
  return window > 0 && s.kv_start + 1 > window ? s.kv_start + 1 - window : 0;
}

/// Keys before the windows of the first rows, summed over all blocks of one head: an arithmetic series with step
/// `rows`.
double passed_by_blocks(const AttentionSequence& s, std::uint64_t rows, std::uint32_t window) {
  if (window == 0) return 0;
  const auto first = static_cast<double>(s.kv_start) + 1 - window, step = static_cast<double>(rows);
  const double blocks = static_cast<double>(ceil_div(s.tokens, rows)), from = first >= 0 ? 0 : std::ceil(-first / step);
  return from >= blocks ? 0 : (blocks - from) * (first + step * (from + blocks - 1) / 2);
}

/// Keys that the blocks of one head visit. Each block visits as many keys as its last row sees.
double visited_keys(const AttentionSequence& s, std::uint64_t rows, bool causal) {
  const double blocks = static_cast<double>(ceil_div(s.tokens, rows)), tokens = static_cast<double>(s.tokens);
  const double before = blocks * static_cast<double>(s.kv_start);
  if (!causal) return before + blocks * tokens;
  const double whole = static_cast<double>(s.tokens / rows);
  return before + static_cast<double>(rows) * whole * (whole + 1) / 2 + (s.tokens % rows ? tokens : 0);
}

/// FlashAttention's blocks keep scores and output in registers, queries and two stages of keys and values in shared
/// memory.
constexpr CtaFootprint kPrefillBlock{256, 224, 96}, kDecodePair{256, 192, 96};  // the latter: on an SM

CtaFootprint part_of(const CtaFootprint& all, std::uint32_t parts) {
  return {all.threads / parts, all.registers_kib / parts, all.shared_memory_kib / parts};
}

double kv_token_bytes(const AttentionHeads& heads) {
  return (heads.dim + (heads.latent ? 0 : value_dim(heads))) * bytes_of(heads.kv_dtype);
}

double query_token_bytes(const AttentionHeads& heads) {
  return heads.query * (heads.dim + value_dim(heads)) * kQueryBytes;
}

}  // namespace

std::uint64_t query_rows(const GpuDatasheet& gpu, AttentionLibrary library) {
  const std::uint32_t rows = prefill_kernel(gpu, library).query_rows;
  return small_shared_memory(gpu) ? rows / 2 : rows;
}

void finish_attention(KernelTime& time, const GpuDatasheet& gpu, std::uint64_t ctas) {
  time.ctas = ctas;
  time.waves = static_cast<std::uint32_t>(ceil_div(ctas, gpu.sm.count));
  time.tail_efficiency = static_cast<double>(ctas) / (static_cast<double>(time.waves) * gpu.sm.count);
  time.sms = static_cast<std::uint32_t>(std::min<std::uint64_t>(ctas, gpu.sm.count));
  const double tensor = time.cta_seconds_on(gpu.sm.count);
  time.limit = time.fixed_seconds >= std::max(tensor, time.hbm_seconds) ? KernelLimit::launch
               : tensor >= time.hbm_seconds                             ? KernelLimit::tensor
                                                                        : KernelLimit::hbm;
  time.seconds = time.seconds_on({static_cast<double>(gpu.sm.count)});
}

std::vector<AttentionSequence> one_token_each(const std::vector<std::uint64_t>& context) {
  std::vector<AttentionSequence> sequences;
  sequences.reserve(context.size());
  for (const std::uint64_t keys : context)
    if (keys > 0) sequences.push_back({1, keys - 1});
  return sequences;
}

double causal_pairs(const AttentionSequence& s, std::uint32_t window) {
  const double t = static_cast<double>(s.tokens), before = static_cast<double>(s.kv_start), w = window;
  if (window == 0 || s.kv_start + s.tokens <= window) return t * before + t * (t + 1) / 2;
  const double growing = std::max(0.0, w - before);  // queries that see fewer than a window
  return growing * before + growing * (growing + 1) / 2 + (t - growing) * w;
}

double attention_flops(const AttentionHeads& heads, const AttentionSequence& s, bool causal) {
  const double all = static_cast<double>(s.tokens) * static_cast<double>(s.kv_start + s.tokens);
  return heads.query * pair_flops(heads) * (causal ? causal_pairs(s, heads.window) : all);
}

KernelTime prefill_attention_time(const GpuDatasheet& gpu, const AttentionHeads& heads,
                                  const std::vector<AttentionSequence>& sequences, bool causal, AttentionPass pass,
                                  bool split_contexts) {
  KernelTime time;
  const KernelConstants::Attention& constants = gpu.kernels.attention;
  const std::uint64_t rows = query_rows(gpu, heads.library);
  std::uint64_t blocks = 0, tokens = 0, all_keys = 0, longest = 0;
  double visited = 0;
  for (const AttentionSequence& s : sequences) {
    if (s.tokens == 0) continue;
    blocks += ceil_div(s.tokens, rows) * heads.query;
    tokens += s.tokens;
    const std::uint64_t keys = s.kv_start + s.tokens;
    all_keys += keys - passed_keys(s, heads.window);
    longest = std::max(longest, heads.window > 0 ? std::min(keys, heads.window + rows - 1) : keys);
    visited += visited_keys(s, rows, causal) - passed_by_blocks(s, rows, heads.window);
    time.flops += attention_flops(heads, s, causal);
  }
  if (blocks == 0) return time;
  const bool backward = pass == AttentionPass::backward;
  const double work = backward ? kBackwardWork / constants.backward_rate_ratio : 1;
  const double key_seconds = work * static_cast<double>(rows) * pair_seconds(gpu, heads);
  const PrefillKernel& kernel = prefill_kernel(gpu, heads.library);
  const double block_seconds = work * kernel.block_ratio * gpu.kernel.attention_block_us * kSecondsPerUs;
  const Split split =
      split_context(longest, split_contexts && kernel.splits ? gpu.sm.count / blocks : 1, constants.prefill_split_keys);

  // Backward reads queries, outputs, their gradients, keys and values, and writes three gradients.
  time.bytes = (static_cast<double>(tokens) * query_token_bytes(heads) +
                static_cast<double>(all_keys) * heads.kv * kv_token_bytes(heads)) *
               (backward ? 2 : 1);
  time.flops *= backward ? kBackwardWork : 1;
  time.tensor_j = tensor_joules(gpu, kProductType, time.flops);
  // Cards have one large L2, in which the kernel before has left queries, keys and values. The rows of GPUs whose L2 is
  // divided into partitions show no such gain.
  const double missed = small_shared_memory(gpu) ? missed_ratio(gpu, time.bytes) : 1;
  time.bytes *= missed;
  time.hbm_seconds = time.bytes / (gpu.hbm.stream_ratio * gpu.hbm.gb_per_s * 1e9);
  time.l2_bytes = heads.query * visited * kv_token_bytes(heads);
  time.fixed_seconds = kernel.fixed_ratio * gpu.kernel.attention_fixed_us * kSecondsPerUs;
  time.longest_cta_seconds = key_seconds * static_cast<double>(split.keys) + block_seconds;
  time.sm_seconds = key_seconds * heads.query * visited + static_cast<double>(blocks) * block_seconds;
  time.tail_ratio = constants.tail_ratio;
  time.persistent = kernel.persistent;
  time.overlap_exponent = kernel.persistent ? 0 : constants.prefill_overlap_exponent;
  time.cta = kPrefillBlock;
  finish_attention(time, gpu, blocks * split.parts);
  return time;
}

KernelTime decode_attention_time(const GpuDatasheet& gpu, const AttentionHeads& heads,
                                 const std::vector<AttentionSequence>& sequences, bool split, bool kv_in_l2) {
  KernelTime time;
  std::uint64_t queries = 0, keys = 0, longest = 0;
  for (const AttentionSequence& s : sequences) {
    queries += s.tokens;
    const std::uint64_t seen = s.kv_start + s.tokens - passed_keys(s, heads.window);
    keys += seen;
    longest = std::max(longest, seen);
    time.flops += attention_flops(heads, s);
  }
  if (keys == 0 || heads.kv == 0) return time;
  time.tensor_j = tensor_joules(gpu, kProductType, time.flops);
  const KernelConstants::Attention& constants = gpu.kernels.attention;
  const std::uint64_t blocks = sequences.size() * heads.kv;
  const DecodeKernel& kernel = decode_kernel(gpu, heads, blocks, longest);
  const std::uint64_t room = split ? kernel.split_blocks_per_sm * gpu.sm.count / blocks : 1;
  const Split parts = split_context(longest, room, kDecodeSplitKeys);
  const double token_bytes = kv_token_bytes(heads);
  const double block_rate =
      kernel.flight_kib * kBytesPerKib / (constants.loaded_latency_us * kSecondsPerUs);  // Little's law

  time.l2_bytes =
      token_bytes * heads.kv * static_cast<double>(keys) + static_cast<double>(queries) * query_token_bytes(heads);
  const double kept = constants.kept_l2_ratio * gpu.l2.capacity_mib * kBytesPerMib;
  time.bytes = (kv_in_l2 ? std::clamp(time.l2_bytes / kept - 1, 0.0, 1.0) : 1) * time.l2_bytes;
  time.l2_seconds = (time.l2_bytes - time.bytes) / gpu.l2_bytes_per_s();
  time.fixed_seconds = kernel.fixed_ratio * gpu.kernel.decode_attention_fixed_us * kSecondsPerUs;
  time.hbm_seconds = time.bytes / (kernel.read_ratio * gpu.kernel.decode_attention_ratio * gpu.hbm.gb_per_s * 1e9);
  if (parts.parts > 1)
    time.after_seconds = (kernel.join_us + kernel.split_us * static_cast<double>(parts.parts)) * kSecondsPerUs;
  time.ctas_per_sm = kernel.ctas_per_sm;
  time.cta = part_of(kDecodePair, kernel.ctas_per_sm);
  time.cta_start_seconds = kernel.block_us * kSecondsPerUs;
  time.longest_cta_seconds = token_bytes * static_cast<double>(parts.keys) / block_rate;
  const double reading = time.l2_bytes / (kernel.ctas_per_sm * block_rate);
  const double computing = time.flops / pair_flops(heads) * pair_seconds(gpu, heads) / constants.decode_products_ratio;
  time.sm_seconds = std::max(reading, computing);
  time.overlap_exponent = constants.decode_overlap_exponent;
  finish_attention(time, gpu, blocks * parts.parts);
  if (time.limit == KernelLimit::tensor && reading >= computing) time.limit = KernelLimit::hbm;
  return time;
}

}  // namespace railyard::gpu
