// Time of a matrix product C[m,n] = A[m,k] B[k,n] on tensor cores, A being activations and B weights.
//
// The kernel is the fastest of a tile menu (NVIDIA, Matrix Multiplication Background user guide DU-09799), both
// orientations, with and without splitting K. A step of a tile's main loop takes the longest of its tensor cycles, its operand feed
// from L2, and a least time; tiles go over the SMs in waves, the last one as long as the others; L2 and HBM traffic run
// beside it and are joined by a p-norm. Tensor efficiency falls with the time that the tensor cores are busy, as the
// power limit takes hold: eta(t) = sustained + (burst - sustained) / (1 + t / throttle), and t x eta(t) is the work.
//
// Weights narrower than the type of the product (int4 under bf16) are read as they are and widened in registers, on their way to
// the tensor cores: about four instructions of 128 lanes for two weights (Kim et al., arXiv 2211.10017; Frantar et al., arXiv
// 2408.11743, Marlin), so 64 weights per SM and clock, which delay the products of a tile as long as they take. An estimate:
// no table of such kernels was at hand. Tiles have 16 to 64 rows, as in Marlin, and up to 128 on
// Hopper, as in Machete.
#pragma once

#include <cstdint>
#include <optional>

#include "base/data_type.h"
#include "gpu/datasheet.h"
#include "gpu/kernels/kernel_time.h"

namespace railyard::gpu {

struct GemmShape {
  std::uint64_t m = 0;  ///< tokens
  std::uint64_t n = 0;
  std::uint64_t k = 0;
  DataType dtype = DataType::bf16;
  std::uint32_t groups = 1;  ///< equal problems in one launch, each with its own A and B (experts)
  std::optional<DataType> result_dtype = std::nullopt;  ///< none: dtype, but not below 16 bits
  /// Weights that take turns, kernel after kernel (benchmarks): they are hits in L2 as far as all of them fit. 0: each use
  /// finds its weights gone, as a pass over many layers does.
  std::uint32_t weight_copies = 0;
  bool split_k = true;  ///< K may be cut into parts for SMs that would idle; DeepGEMM, for one, never does
  bool steady = false;  ///< the GPU has long been at its power limit: eta = sustained from the start
  double weight_bytes =
      0;  ///< of one weight in memory, scales included; 0: dtype's. Fewer: they are widened on the SMs

  bool operator==(const GemmShape& o) const {
    return m == o.m && n == o.n && k == o.k && dtype == o.dtype && groups == o.groups &&
           result_dtype == o.result_dtype && weight_copies == o.weight_copies && split_k == o.split_k &&
           steady == o.steady && weight_bytes == o.weight_bytes;
  }
};

/// Operands are read from HBM once, weights less what L2 still holds of them; A and B are read again as far as the wave's
/// working set exceeds L2.
/// @throws std::domain_error if the GPU has no tensor rate for the data type
KernelTime gemm_time(const GpuDatasheet& gpu, const GemmShape& shape);

}  // namespace railyard::gpu
