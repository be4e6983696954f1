// Time of kernels that only move bytes: norms, rotary embedding, activations, residual, embedding lookup, sampling,
// quantisation, copies.
//
// Data that the previous kernel wrote, or that the next kernel reads, stays in L2 as far as it fits (missed_ratio()).
// `cold_bytes` always cross HBM: weights, KV cache, embedding rows.
#pragma once

#include <cstdint>

#include "gpu/kernels/kernel_time.h"

namespace railyard::gpu {

struct GpuDatasheet;

/// Kernels in which each thread has its own elements (copies, additions):
/// T = launch + HBM bytes / (stream_ratio x HBM rate) + L2 bytes / (copy_l2_ratio x L2 rate).
/// @param in_flight_bytes  traffic of all threads per wait for memory, if there are few threads: by Little's law, they reach
///                         in_flight_bytes / (stream_latency_ratio x read_latency). A p-norm joins this time and HBM's; 0: enough threads to
///                         hide the latency
KernelTime memory_bound_time(const GpuDatasheet& gpu, double bytes, double cold_bytes = 0, double in_flight_bytes = 0);

/// Kernels with one thread block per row (norms, activations, softmax). If the threads do not cover the row with one
/// load each, the block loads several times and waits for memory each time.
struct RowWork {
  std::uint64_t rows = 0;
  double row_bytes = 0;  ///< bytes of a row that one pass reads from each input
  /// 2 if a sum over the row comes first (norms), 3 if a maximum comes before that (softmax)
  std::uint32_t passes = 1;
  double load_bytes = 16;   ///< bytes per load of a thread: 16 in vectorised kernels, one element in scalar kernels
  double instructions = 0;  ///< of a thread for each load and pass: addresses, loop, arithmetic, store
  std::uint32_t most_threads = 1024;  ///< of a block
  double bytes = 0, cold_bytes = 0;
};

/// The p-norm of HBM time, L2 time and waves of blocks. A block takes block_start + loads of a thread x (wait + issue):
/// wait  = read_latency x (loaded_latency x (l2_latency + (1 - l2_latency) x share of the bytes from HBM)
///                         + further_pass x (passes - 1))
/// issue = passes x threads on the SM x instructions / (fp32_lanes x clock), because the threads share the lanes.
/// Constants: KernelConstants::MemoryBound.
KernelTime row_kernel_time(const GpuDatasheet& gpu, const RowWork& work);

}  // namespace railyard::gpu
