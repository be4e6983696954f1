// Time of a matrix product C[m,n] = A[m,k] B[k,n] on tensor cores, A being activations and B weights.
//
// The kernel is the fastest of a tile menu (NVIDIA, Matrix Multiplication Background user guide DU-09799), both
// orientations, with and without splitting K. A tile's main loop runs at the slower of its tensor cycles and its
// operand feed from L2; tiles go over the SMs in waves, the last one as long as the others; L2 and HBM traffic run
// beside it and are joined by a p-norm. Tensor efficiency falls with the kernel's own duration as the power limit
// takes hold, which makes the time a fixed point: eta(t) = sustained + (burst - sustained) / (1 + t / throttle).
#pragma once

#include <cstdint>

#include "base/data_type.h"
#include "gpu/datasheet.h"
#include "gpu/kernels/kernel_time.h"

namespace railyard::gpu {

struct GemmShape {
  std::uint64_t m = 0;         ///< tokens
  std::uint64_t n = 0;
  std::uint64_t k = 0;
  DataType dtype = DataType::bf16;
  std::uint32_t groups = 1;    ///< equal problems in one launch, each with its own A and B (experts)

  bool operator==(const GemmShape& o) const {
    return m == o.m && n == o.n && k == o.k && dtype == o.dtype && groups == o.groups;
  }
};

/// Weights are read from HBM once per kernel (a layer's are not in L2 when its turn comes again); A and B are read
/// again as far as the wave's working set exceeds L2.
/// @throws std::domain_error if the GPU has no tensor rate for the data type
KernelTime gemm_time(const GpuDatasheet& gpu, const GemmShape& shape);

}  // namespace railyard::gpu
