// Attention kernels as data: what a thread block of each does on an SM.
//
// Prefill, clocks of a query-key pair with heads of 128. Kernels with warp-wide instructions (mma.sync: Volta, Ampere,
// Ada, cards of Blackwell) run one part after the other: products, operands from shared memory (each of four warps
// loads all keys and values: 4 x 512 bytes a key for 128 rows at 128 bytes a clock, half of it hidden), exponentials
// and the arithmetic around them. Kernels with asynchronous instructions (Hopper, B200) overlap products with the
// exponentials of the other warp group. An SM computes 16 exponentials per clock (CUDA C++ Programming Guide,
// arithmetic instructions).
//
// Decode: a thread block keeps a tile or two of KV in flight (sources below), which arrive in kLoadedLatencyUs. TMA
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
// B200 and L40S (docs/calibration.md), so devices left out there share them.
//
// cuDNN on Hopper is what PyTorch's scaled_dot_product_attention calls (sdp_utils.cpp, check_prefer_cudnn_attention()).
// NVIDIA/cudnn-frontend has the source of its prefill kernel (sm90_sdpa_prefill_engine.h and d128_fprop_kernel.h): one
// thread block an SM takes tile after tile of 128 query rows of a head from a counter, in the order of the grid, and
// visits 128 keys at a time up to the diagonal. Shared memory has two buffers each of queries, keys and values, so TMA
// loads the next tile's operands during the products of this tile. No context is split. The decode kernel has no public
// source; its rows show no time between its blocks. The five numbers of these two kernels that differ from those of
// FlashAttention-3 (products_ratio, block_ratio, join_us and twice fixed_ratio) are fitted to the 45 rows of the H100 in
// validation/measured.csv: mean |ln| 0.021. The 45 rows of the H200 were kept out: 0.030.
#pragma once

#include "gpu/kernels/attention.h"

namespace railyard::gpu {

struct GpuDatasheet;

struct PrefillKernel {
  const char* name;
  double products_ratio;    ///< rate of products, relative to matrix products under the power limit; on
                            ///< Hopper attention leaves power for a higher clock
  double operand_clocks;    ///< exposed loads from shared memory, per pair, with heads of 128
  double exponentials;      ///< time of exponentials and what goes with them, relative to 16 a clock
  double overlap;           ///< exponent of the p-norm that joins products and exponentials; 1: their sum
  bool splits;              ///< a chunk with fewer blocks than SMs splits its context
  double block_ratio = 1;   ///< fixed time of a thread block, relative to the datasheet's
  double fixed_ratio = 1;   ///< launch, prologue and drain, relative to the datasheet's
  bool persistent = false;  ///< a thread block loops over tiles and loads the next one during the products
};

struct DecodeKernel {
  const char* name;
  double read_ratio;                  ///< share of the rate at which memory can be read
  double flight_kib;                  ///< data that a thread block has in flight
  std::uint32_t ctas_per_sm;          ///< thread blocks that run on an SM at the same time
  std::uint32_t split_blocks_per_sm;  ///< contexts are split into at most so many blocks
  double block_us;                    ///< of a thread block in which it reads nothing
  double join_us, split_us;           ///< to join parts of a context, once and for each part
  double fixed_ratio = 1;             ///< launch, prologue and drain, relative to the datasheet's
};

/// Latency of memory while a kernel's thread blocks all read, with the work on a tile in between.
constexpr double kLoadedLatencyUs = 1.4;

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
