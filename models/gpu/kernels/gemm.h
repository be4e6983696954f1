// Time of a matrix product C[m,n] = A[m,k] B[k,n] on tensor cores, A being activations and B weights.
//
// cuBLAS's kernel is the fastest choice from a list of tiles (NVIDIA, Matrix Multiplication Background user guide DU-09799),
// in both orientations, with and without splitting K. A step of a tile's main loop takes the longest of three times:
// its tensor cycles, its operand feed from L2, and a least time. Tiles run on the SMs in waves; a partly filled last
// wave takes as long as a full one. L2 and HBM traffic overlap with this; a p-norm combines the times. Tensor
// efficiency falls with the time that the tensor cores are busy, because of the power limit: eta(t) = sustained +
// (burst - sustained) / (1 + t / throttle), and t x eta(t) is the work.
//
// Products whose operands have a scale for each row run in kernels of their own: in cuBLAS from 12.9 on, before that in
// CUTLASS (PyTorch, aten/src/ATen/native/cuda/RowwiseScaledMM.cu). Both have tiles of 128 x 128 and a step of 128 for all
// but the smallest products, and do not split K. On an H200, one wave of such tiles takes the same time with 16 rows as
// with 2048 (validation/measured.csv), up to three times that of a product with one scale for a tensor; from 1024 rows on,
// both kinds of product are equally fast within 8 %.
//
// A product that is added to C reads C where it writes its result, so the result's bytes count twice. On an H200, a sum
// in fp32 took longer than a result in 16 bits by about the time of 6 bytes for each number at 4.6 TB/s, whatever the
// product's depth (validation/measured.csv). This is the rate of epilogue_bytes_per_clock, fitted to other rows.
//
// Weights narrower than the type of the product (int4 with bf16) are read in their own type and widened in registers
// before the tensor cores: about four instructions of 128 lanes for two weights (Kim et al., arXiv 2211.10017; Frantar
// et al., arXiv 2408.11743, Marlin), so widened_per_clock weights per SM. This time adds to the products of a tile. It is an
// estimate: no open table of such kernels was available. Tiles have 16 to 64 rows, as in Marlin, and up to 128 on
// Hopper, as in Machete.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/data_type.h"
#include "gpu/architecture.h"
#include "gpu/kernels/kernel_time.h"

namespace railyard::gpu {

struct GpuDatasheet;

/// Whose kernel runs.
enum class GemmLibrary : std::uint8_t {
  cublas,    ///< the fastest of its tiles and splits of K
  deepgemm,  ///< DeepGEMM's tiles (deepgemm.h); fp8 on Hopper. Groups differ in size: m is their mean
  /// fp8 operands with a scale for each row of A and column of B (PyTorch's torch._scaled_mm): one tile, K is not split.
  rowwise,
};
constexpr std::array<const char*, 3> kGemmLibraryNames{"cublas", "deepgemm", "rowwise"};
constexpr const char* name_of(GemmLibrary library) { return kGemmLibraryNames[static_cast<std::size_t>(library)]; }

/// A library for products of fp8 weights that have a scale for each block of 128 x 128.
struct BlockScaledProducts {
  std::vector<Architecture> architectures;
  GemmLibrary library = GemmLibrary::cublas;
  std::uint32_t columns = 1, depth = 1;   ///< it takes products whose n and k are multiples of these
  std::uint32_t experts_from_tokens = 0;  ///< routed experts, in passes of at least so many tokens; 0: never
};

struct GemmShape {
  std::uint64_t m = 0, n = 0, k = 0;  ///< m: tokens
  DataType dtype = DataType::bf16;
  std::uint32_t groups = 1;  ///< equal problems in one launch, each with its own A and B (experts)
  std::optional<DataType> result_dtype = std::nullopt;  ///< none: dtype, but not below 16 bits
  /// Number of weight matrices that consecutive kernels use in turn (benchmarks). They hit in L2 if all of them fit.
  /// 0: weights are never in L2, as in a pass over many layers.
  std::uint32_t weight_copies = 0;
  bool accumulate = false;  ///< C is read, and the product added to it
  GemmLibrary gemm_library = GemmLibrary::cublas;
  /// A benchmark wrote over all of L2 before (a flush). A share (dirty_l2_ratio) of what the kernel then displaces is dirty and goes to
  /// HBM: fitted to the rows of the H800 with up to 128 rows (alibaba/InferSim bench_data/gemm).
  bool l2_flushed = false;
  bool steady = false;         ///< the GPU has been at its power limit for long: eta = sustained from the start
  std::uint32_t most_sms = 0;  ///< launched for at most this number of SMs (cuBLASLt, SM_COUNT_TARGET); 0: all
  double weight_bytes =
      0;  ///< bytes of one weight in memory, with scales; 0: those of dtype. Narrower ones are widened on the SMs

  bool operator==(const GemmShape& o) const {
    return m == o.m && n == o.n && k == o.k && dtype == o.dtype && groups == o.groups &&
           result_dtype == o.result_dtype && weight_copies == o.weight_copies && accumulate == o.accumulate &&
           gemm_library == o.gemm_library && l2_flushed == o.l2_flushed && steady == o.steady &&
           most_sms == o.most_sms && weight_bytes == o.weight_bytes;
  }
};

/// True if the library has a kernel that this model knows: deepgemm for fp8 operands on Hopper, rowwise for fp8.
bool library_runs(const GpuDatasheet& gpu, const GemmShape& shape);

/// Operands are read from HBM once, except weights that are still in L2. The part of A and B by which the working set
/// of a wave exceeds L2 is read again.
/// @throws std::domain_error if the GPU has no tensor rate for the data type, or the library no kernel for the product
KernelTime gemm_time(const GpuDatasheet& gpu, const GemmShape& shape);

}  // namespace railyard::gpu
