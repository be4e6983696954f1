// Tiles and steps of DeepGEMM's kernel for fp8 with block scales on Hopper ("1D2D", bf16 results).
//
// The library picks a tile by its own rules, not the fastest: the fewest waves, then the fullest last wave; from 512 rows
// on, clusters of two thread blocks share the loads of one operand (deepseek-ai/DeepGEMM 904b721,
// csrc/jit_kernels/heuristics/common.hpp and sm90.hpp). K is never split.
//
// A step covers 128 of K. The one or two math warp groups of a thread block wait for the same operands, run their tensor
// instructions, wait for them, and add the scaled result in registers (deep_gemm/include/deep_gemm/impls/
// sm90_fp8_gemm_1d2d.cuh). So nothing hides the latency of a step:
//   step = max(tensor, shared memory) + latency + select
// tensor is the tile's share of the tensor rate. Tensor instructions of 64 rows read their operands from shared memory
// at 128 bytes per clock, so narrow tiles do not get faster. The latency is longer in a cluster, where a stage is free
// when both thread blocks have read it. A tile whose columns have two scales (no divisor of 128 wide) selects one for
// each number; at 96, 160 and 192 columns the compiler knows which.
//
// Groups (the experts of a rank) are rows of one matrix ("contiguous" layout): each group begins at a multiple of 128 rows,
// and all tiles have 128 rows. Groups differ in size, so the last tile of a group is half full on average.
//
// Both latencies (KernelConstants::DeepGemm) are fitted to the rows of the H800 in alibaba/InferSim bench_data/gemm
// (validation/gemm.csv). Those of the H20, with a quarter of the tensor rate, took no part, nor did groups.
#pragma once

#include <cstdint>

#include "gpu/kernel_constants.h"

namespace railyard::gpu {

struct DeepGemmTile {
  std::uint32_t m = 0, n = 0;
  bool cluster = false;        ///< two thread blocks share an operand
  bool shares_inputs = false;  ///< in a cluster: rows of A are shared; otherwise columns of B
};

/// Tiles of 128 rows that cover all groups of m rows on average. @pre groups > 1
std::uint64_t deepgemm_row_tiles(std::uint64_t m, std::uint32_t groups);

/// The tile that the library picks for a result of m rows, those of all groups, and n columns.
/// @param grouped  only tiles of kGroupRows rows
DeepGemmTile deepgemm_tile(std::uint64_t m, std::uint64_t n, std::uint32_t sms, bool grouped = false);
constexpr std::uint32_t kGroupRows = 128;

/// Clocks of one step of a tile, if operands are in time. @param mma_clocks  at the full tensor rate
double deepgemm_step_clocks(const KernelConstants::DeepGemm& constants, const DeepGemmTile& tile, double mma_clocks);

}  // namespace railyard::gpu
