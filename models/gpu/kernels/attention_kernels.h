// Attention kernels: what a thread block of each does on an SM. Their numbers are data (gpu/kernel_constants.h); here are the
// rules that choose one, and the formulas.
//
// Prefill, clocks of a query-key pair with heads of 128. Kernels with warp-wide instructions (mma.sync: Volta, Ampere,
// Ada, cards of Blackwell) run one part after the other: products, operands from shared memory (each of four warps
// loads all keys and values: 4 x 512 bytes a key for 128 rows at 128 bytes a clock, half of it hidden), exponentials
// and the arithmetic around them. Kernels with asynchronous instructions (Hopper, B200) overlap products with the
// exponentials of the other warp group. An SM computes 16 exponentials per clock (CUDA C++ Programming Guide,
// arithmetic instructions).
//
// Decode: a thread block keeps a tile or two of KV in flight (sources below), which arrive in loaded_latency_us. TMA
// reads at the rate of memory; blocks that copy with cp.async wait for their tiles, and lose a share. Before its first
// tile and after its last one a block reads nothing: `block_us`. Contexts are split until there are
// `split_blocks_per_sm` blocks for each SM; their parts are joined at the end.
//
// Sources: Dao, arXiv 2307.08691; Shah et al., arXiv 2407.08608 (heads of 64 reach 0.77 of the rate of 128). Bytes in
// flight are tiles of 128 keys, one of them before Hopper and two stages of keys and values from Hopper on, from
// memory of the kernels' sources. Splits: num_splits_heuristic() of FlashAttention-2 (two blocks an SM) and -3 (one);
// TensorRT-LLM, decoderXQAConstants.h (kTargetWaveFactor 8, parts of at least 128 keys). TensorRT-LLM before B200 runs
// its masked multi-head attention instead of XQA for heads that share no KV and for grids that leave three quarters of
// the SMs idle (decoderXQAImplJIT.cpp, mayHavePerfGain). All other numbers are fitted together to the rows of A100, H100,
// B200 and L40S (docs/calibration.md; scripts/calibrate.py fit --kernels), so devices left out there share them.
//
// cuDNN on Hopper is what PyTorch's scaled_dot_product_attention calls (sdp_utils.cpp, check_prefer_cudnn_attention()).
// NVIDIA/cudnn-frontend has the source of its prefill kernel (sm90_sdpa_prefill_engine.h and d128_fprop_kernel.h): one
// thread block an SM takes tile after tile of 128 query rows of a head from a counter, in the order of the grid, and
// visits 128 keys at a time up to the diagonal. Shared memory has two buffers each of queries, keys and values, so TMA
// loads the next tile's operands during the products of this tile. No context is split. The decode kernel has no public
// source; its rows show no time between its blocks.
#pragma once

#include "gpu/kernels/attention.h"

namespace railyard::gpu {

struct DecodeKernel;
struct GpuDatasheet;
struct PrefillKernel;

constexpr double kFlopsPerProduct = 2;           ///< a multiply-add
constexpr std::uint64_t kDecodeSplitKeys = 128;  ///< least keys in one part of a split context

/// The kernel of a library on a GPU.
const PrefillKernel& prefill_kernel(const GpuDatasheet& gpu, AttentionLibrary library);
/// @param blocks  sequences times KV heads  @param longest  keys of the longest context
const DecodeKernel& decode_kernel(const GpuDatasheet& gpu, const AttentionHeads& heads, std::uint64_t blocks,
                                  std::uint64_t longest);

/// Clock of attention relative to the datasheet's: that under the power limit, except where bursts are not throttled.
double attention_clock_ratio(const GpuDatasheet& gpu);

/// Clocks of a query-key pair on an SM. @param dim  mean size of a key and a value
double pair_clocks(const GpuDatasheet& gpu, const PrefillKernel& kernel, double dim);

}  // namespace railyard::gpu
