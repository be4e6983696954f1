// workload.kind: overlap, typed and validated: a matrix product, and the collective on which it depends or beside which
// it runs. Plain data; no SystemC.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/units.h"
#include "gpu/kernels/gemm.h"

namespace railyard::workload::overlap {

enum class Operation : std::uint8_t {
  all_gather_gemm,  ///< C[m, n/tp] = A[m, k] B[k, n/tp]: the rows of A are gathered (column-parallel, sequence parallelism)
  gemm_reduce_scatter,  ///< C[m, n] = A[m, k/tp] B[k/tp, n]: the partial results are summed, rows scattered (row-parallel)
  gemm_all_reduce,      ///< C[m, n] = A[m, k] B[k, n] on every rank, while other bytes are all-reduced
};
constexpr std::array<const char*, 3> kOperationNames{"all_gather_gemm", "gemm_reduce_scatter", "gemm_all_reduce"};
constexpr const char* name_of(Operation operation) { return kOperationNames[static_cast<std::size_t>(operation)]; }

/// How product and collective are run.
enum class Method : std::uint8_t {
  gemm,        ///< only the product
  collective,  ///< only NCCL's collective
  serial,      ///< one after the other
  decomposed,  ///< tp smaller products; copy engines move a shard during another product (asynchronous TP)
  fused,       ///< one product whose tiles wait for their shard, or send it when they are done
  beside,      ///< both at the same time in two streams, the collective first
};
constexpr std::array<const char*, 6> kMethodNames{"gemm", "collective", "serial", "decomposed", "fused", "beside"};
constexpr const char* name_of(Method method) { return kMethodNames[static_cast<std::size_t>(method)]; }

struct OverlapSpec {
  Operation operation = Operation::all_gather_gemm;
  std::vector<std::uint32_t> gpus;  ///< rank -> GPU, counted over all groups
  gpu::GemmShape product;           ///< of all ranks
  Bytes collective_bytes = 0;       ///< as counted by nccl-tests
  std::vector<Method> methods;      ///< in the order of the runs
};

}  // namespace railyard::workload::overlap
