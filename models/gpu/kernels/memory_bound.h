// Time of kernels that only move bytes: norms, rotary embedding, activations, residual, embedding lookup, sampling,
// quantisation, copies.
//
// What a neighbouring kernel has just written or will read next stays in L2 while it fits (missed_ratio of datasheet's
// working set); `cold_bytes` come from or go to HBM in any case (weights, KV cache, embedding rows).
#pragma once

#include <cstdint>

#include "gpu/datasheet.h"
#include "gpu/kernels/kernel_time.h"

namespace railyard::gpu {

/// Any number of threads, each with its own elements (copies, additions):
/// T = launch + (HBM bytes + half_saturation) / (stream_ratio x HBM rate) + L2 bytes / (stream_ratio x L2 rate).
KernelTime memory_bound_time(const GpuDatasheet& gpu, double bytes, double cold_bytes = 0);

/// A thread block for each row (norms, activations, softmax), which comes back for more as often as its threads do not cover
/// the row at once, and waits for memory each time.
struct RowWork {
  std::uint64_t rows = 0;
  double row_bytes = 0;      ///< that one pass reads of a row, from each of its inputs
  std::uint32_t passes = 1;  ///< 2 where a sum over the row comes first (norms), 3 with a maximum before that (softmax)
  double load_bytes = 16;    ///< that a thread asks for at once: 16 in vectorised kernels, an element in plain ones
  double bytes = 0, cold_bytes = 0;
};

/// As memory_bound_time, beside the waiting of blocks: waves x (synchronisation + passes x loads x memory latency), joined by
/// a p-norm.
KernelTime row_kernel_time(const GpuDatasheet& gpu, const RowWork& work);

}  // namespace railyard::gpu
