// Attention of a mixed batch: chunks of prompts and decodes in one kernel, as serving engines call it (FlashAttention's
// varlen interface, in vLLM).
//
// The kernel is the one of the prompts. A decode has one query row, but it takes a whole thread block of query rows: the
// block visits all keys of the sequence at the rate of a prompt's block. FlashAttention-2 (Ampere, Ada, and cards of
// Blackwell) splits no context in such a call, and has a block for each query head. So a decode costs as much as a prompt of one block with
// the same context, and there are three more costs:
//   - Blocks are ordered by head. If the blocks of one head fill the GPU, the query heads of a group do not run
//     together, and each one reads the KV cache of its group again, unless L2 holds this KV head of all sequences.
//   - The grid has as many blocks for each sequence as the longest chunk needs. The blocks beyond a sequence's own rows
//     are empty, but each one takes an SM for a moment.
//   - Blocks of prompts and decodes differ in length, so SMs idle longer at the end of the kernel.
// FlashAttention-3 (Hopper, B200) puts the query heads of a group into one block (pack_gqa, always in varlen
// calls: Dao-AILab/flash-attention, hopper/heuristics.h), splits contexts over idle SMs, and has no empty blocks.
//
// Three constants, KernelConstants::MixedAttention, are fitted to the 8448 mixed points of the RTX 4090 profile of
// Llama-3.1-8B (casys-kaist/LLMServingSim 2.0, vLLM 0.19). There, with the measured times of each kind alone, the
// median error is 4.8 % (p90 24 %); with 512 or more prompt tokens beside 16 or more decodes, 4.9 % (p90 17 %). The sum
// of the two kernels is 30 % too low at the median. There is no open measurement of FlashAttention-3.
#pragma once

#include <cstdint>
#include <vector>

#include "gpu/kernels/attention.h"
#include "gpu/kernels/kernel_time.h"

namespace railyard::gpu {

struct GpuDatasheet;

/// The parts of the kernel. Measured times may replace those of the formulas (KernelTime::taking) before time().
struct MixedAttention {
  KernelTime prefill;              ///< the prompts alone, in this kernel
  KernelTime rows;                 ///< the decodes alone, in this kernel
  KernelTime decode;               ///< the decodes alone, in the decode kernel
  double kv_reads = 1;             ///< times that the decodes' KV is read from HBM
  double empty_block_seconds = 0;  ///< of all empty blocks

  /// At least the time of each kind alone.
  KernelTime time(const GpuDatasheet& gpu) const;
};

/// If one of the kinds is missing, time() is that of the other kind's own kernel.
MixedAttention mixed_attention(const GpuDatasheet& gpu, const AttentionHeads& heads,
                               const std::vector<AttentionSequence>& prefills,
                               const std::vector<AttentionSequence>& decodes);

}  // namespace railyard::gpu
