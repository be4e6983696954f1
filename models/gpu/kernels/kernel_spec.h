// One kernel as a user names it, of any kind that the formulas of this folder cover, and its time on a GPU.
//
// Which fields count depends on the operation:
//   gemm                m, n, k, groups, dtype, result_dtype, weight_copies
//   attention_prefill   heads, sequences (tokens after kv_start each), causal
//   attention_backward  the same: gradients of queries, keys and values, scores computed again
//   attention_decode    heads, sequences (one token, or a few, after kv_start keys each), over a paged cache
//   rotary              tokens, heads; kv_cache: also writes the tokens' keys and values to the cache
//   norm                tokens x width; residual: also adds and writes back the residual stream
//   activation          tokens x width results; gated (SwiGLU, GeGLU): of two inputs each
//   residual_add softmax embedding     tokens x width
//   sampling            tokens x width logits
//   quantize            tokens x width from 16 bits to dtype; dynamic: the scale is found first
//   dequantize          tokens x width from dtype to 16 bits
//   copy                bytes, read once and written once
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/data_type.h"
#include "gpu/datasheet.h"
#include "gpu/kernels/attention.h"
#include "gpu/kernels/kernel_time.h"

namespace railyard::gpu {

enum class KernelOp : std::uint8_t {
  gemm, attention_prefill, attention_backward, attention_decode, rotary, norm, activation, residual_add, softmax, embedding,
  sampling, quantize, dequantize, copy
};
constexpr std::array<const char*, 14> kKernelOpNames{
    "gemm", "attention_prefill", "attention_backward", "attention_decode", "rotary", "norm", "activation", "residual_add",
    "softmax", "embedding", "sampling", "quantize", "dequantize", "copy"};
constexpr const char* name_of(KernelOp op) { return kKernelOpNames[static_cast<std::size_t>(op)]; }

/// Who starts the kernel, which is what lies between the end of the one before and its own first work.
enum class KernelLaunch : std::uint8_t {
  graph,   ///< a CUDA graph: its predecessor's end
  stream,  ///< a stream that the host keeps filled
  host,    ///< a framework in eager mode, one call for each kernel: no sooner than the host comes by again
};
constexpr std::array<const char*, 3> kKernelLaunchNames{"graph", "stream", "host"};
constexpr const char* name_of(KernelLaunch launch) { return kKernelLaunchNames[static_cast<std::size_t>(launch)]; }

struct KernelSpec {
  KernelOp op = KernelOp::gemm;
  KernelLaunch launch = KernelLaunch::graph;
  DataType dtype = DataType::bf16;        ///< of operands and elements

  std::uint64_t m = 0, n = 0, k = 0;      ///< C[m,n] = A[m,k] B[k,n], A activations, B weights
  std::uint32_t groups = 1;               ///< equal products in one launch, each with its own A and B: experts, a batch
  std::optional<DataType> result_dtype;   ///< none: dtype, but not below 16 bits
  /// Weights that take turns, kernel after kernel (benchmarks): they stay in L2 as far as all of them fit. 0: each use finds
  /// its weights gone from L2, as a pass over many layers does.
  std::uint32_t weight_copies = 0;

  AttentionHeads heads;                   ///< on this rank; its kv_dtype is the cache's
  std::vector<AttentionSequence> sequences;
  bool causal = true;

  std::uint64_t tokens = 0, width = 0;    ///< rows and elements of a row
  bool residual = false, gated = false, dynamic = false, kv_cache = false;
  bool cold = false;                      ///< operands come from HBM and results go there; else they may be hits in L2
  std::uint64_t bytes = 0;                ///< of a copy
};

/// @throws std::domain_error if the GPU has no tensor rate for the data type
KernelTime kernel_time(const GpuDatasheet& gpu, const KernelSpec& spec);

}  // namespace railyard::gpu
