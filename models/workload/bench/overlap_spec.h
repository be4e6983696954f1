// workload.kind: overlap, typed and validated: a matrix product, and the collective on which it depends or beside which
// it runs. Plain data; no SystemC.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/units.h"
#include "gpu/kernels/gemm.h"
#include "workload/linear/coupled_product.h"

namespace railyard::workload::overlap {

enum class OverlapOperation : std::uint8_t {
  all_gather_gemm,  ///< C[m, n/tp] = A[m, k] B[k, n/tp]: the rows of A are gathered (column-parallel, sequence parallelism)
  gemm_reduce_scatter,  ///< C[m, n] = A[m, k/tp] B[k/tp, n]: the partial results are summed, rows scattered (row-parallel)
  gemm_all_reduce,      ///< C[m, n] = A[m, k] B[k, n] on every rank, while other bytes are all-reduced
};
constexpr std::array<const char*, 3> kOperationNames{"all_gather_gemm", "gemm_reduce_scatter", "gemm_all_reduce"};
constexpr const char* name_of(OverlapOperation operation) {
  return kOperationNames[static_cast<std::size_t>(operation)];
}

/// How product and collective are run: one of them alone, or both by a method of linear/coupled_product.h.
enum class Method : std::uint8_t { gemm, collective, serial, decomposed, fused, beside, ring, pipelined, bulk };
constexpr std::array<const char*, 9> kMethodNames{"gemm",   "collective", "serial",    "decomposed", "fused",
                                                  "beside", "ring",       "pipelined", "bulk"};
constexpr const char* name_of(Method method) { return kMethodNames[static_cast<std::size_t>(method)]; }
constexpr bool has_both(Method method) { return method > Method::collective; }
/// @pre has_both()
constexpr linear::Method linear_method(Method method) {
  switch (method) {
    case Method::beside: return linear::Method::beside;
    case Method::decomposed: return linear::Method::decomposed;
    case Method::fused: return linear::Method::fused;
    case Method::ring: return linear::Method::ring;
    case Method::pipelined: return linear::Method::pipelined;
    case Method::bulk: return linear::Method::bulk;
    default: return linear::Method::serial;
  }
}
constexpr linear::Coupling coupling_of(OverlapOperation operation) {
  switch (operation) {
    case OverlapOperation::all_gather_gemm: return linear::Coupling::gather;
    case OverlapOperation::gemm_reduce_scatter: return linear::Coupling::scatter;
    case OverlapOperation::gemm_all_reduce: break;
  }
  return linear::Coupling::apart;
}
/// Whether a method is for an operation.
constexpr bool accepts(OverlapOperation operation, Method method) {
  return !has_both(method) || linear::couples(linear_method(method), coupling_of(operation));
}

struct OverlapSpec {
  OverlapOperation operation = OverlapOperation::all_gather_gemm;
  std::vector<std::uint32_t> gpus;  ///< rank -> GPU, counted over all groups
  gpu::GemmShape product;           ///< of all ranks
  Bytes collective_bytes = 0;       ///< as counted by nccl-tests
  std::vector<Method> methods;      ///< in the order of the runs
  linear::Options options;
};

}  // namespace railyard::workload::overlap
