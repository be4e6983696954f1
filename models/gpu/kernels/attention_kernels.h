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
// reads at the rate of memory; blocks that copy with cp.async wait for their tiles, and lose a share. The parts of a
// split context are joined by a second kernel.
//
// Sources: Dao, arXiv 2307.08691; Shah et al., arXiv 2407.08608 (heads of 64 reach 0.77 of the rate of 128). Bytes in
// flight are tiles of 128 keys, one of them before Hopper and two stages of keys and values from Hopper on, from
// memory of the kernels' sources. All other numbers are fitted together to the rows of A100, H100, B200 and L40S
// (docs/calibration.md), so devices left out there share them.
#pragma once

#include "gpu/datasheet.h"
#include "gpu/kernels/attention.h"

namespace railyard::gpu {

struct AttentionKernel {
  const char* name;
  double products_ratio;     ///< prefill: rate of products, relative to matrix products under the power limit; on
                             ///< Hopper attention leaves power for a higher clock
  double operand_clocks;     ///< prefill: exposed loads from shared memory, per pair, with heads of 128
  double exponentials;       ///< prefill: time of exponentials and what goes with them, relative to 16 a clock
  double overlap;            ///< prefill: exponent of the p-norm that joins products and exponentials; 1: their sum
  double read_ratio;         ///< decode: share of the rate at which memory can be read
  double flight_kib;         ///< decode: data that a thread block has in flight
  double split_us, join_us;  ///< decode: to join parts of a context, for each part and once
};

/// Latency of memory while a kernel's thread blocks all read, with the work on a tile in between.
constexpr double kLoadedLatencyUs = 1.4;

/// The kernel of a library on a GPU.
const AttentionKernel& attention_kernel(const GpuDatasheet& gpu, AttentionLibrary library);

/// Clock of attention relative to the datasheet's: that under the power limit, except where bursts are not throttled.
double attention_clock_ratio(const GpuDatasheet& gpu);

/// Clocks of a query-key pair on an SM. @param dim  mean size of a key and a value
double pair_clocks(const GpuDatasheet& gpu, const AttentionKernel& kernel, double dim);

}  // namespace railyard::gpu
