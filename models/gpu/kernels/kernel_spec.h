// One kernel as a user names it, of any kind that the formulas of this folder cover, and its time on a GPU.
//
// Which fields count depends on the operation:
//   gemm                m, n, k, groups, dtype, result_dtype, weight_copies, split_k, steady
//   attention_prefill   heads, sequences (tokens after kv_start each), causal
//   attention_backward  the same: gradients of queries, keys and values, scores computed again
//   attention_decode    heads, sequences (one token, or a few, after kv_start keys each), split_context
//   rotary              tokens, heads; kv_cache: also writes the tokens' keys and values to the cache
//   norm                tokens x width; residual: also adds and writes back the residual stream
//   activation          tokens x width results; gated (SwiGLU, GeGLU): of two inputs each
//   residual_add softmax embedding     tokens x width
//   sampling            tokens x width logits
//   quantize            tokens x width from 16 bits to dtype; dynamic: the scale of the whole tensor is found first
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
  gemm,
  attention_prefill,
  attention_backward,
  attention_decode,
  rotary,
  norm,
  activation,
  residual_add,
  softmax,
  embedding,
  sampling,
  quantize,
  dequantize,
  copy
};
constexpr std::array<const char*, 14> kKernelOpNames{"gemm",
                                                     "attention_prefill",
                                                     "attention_backward",
                                                     "attention_decode",
                                                     "rotary",
                                                     "norm",
                                                     "activation",
                                                     "residual_add",
                                                     "softmax",
                                                     "embedding",
                                                     "sampling",
                                                     "quantize",
                                                     "dequantize",
                                                     "copy"};
constexpr const char* name_of(KernelOp op) { return kKernelOpNames[static_cast<std::size_t>(op)]; }

/// Who starts the kernel, which is what lies between the end of the one before and its own first work.
enum class KernelLaunch : std::uint8_t {
  graph,        ///< a CUDA graph: its predecessor's end
  stream,       ///< a stream that the host keeps filled
  host,         ///< a framework in eager mode, call after call: no sooner than the host comes by again
  synchronous,  ///< a framework's call that is waited for, one kernel at a time
};
constexpr std::array<const char*, 4> kKernelLaunchNames{"graph", "stream", "host", "synchronous"};
constexpr const char* name_of(KernelLaunch launch) { return kKernelLaunchNames[static_cast<std::size_t>(launch)]; }

struct KernelSpec {
  KernelOp op = KernelOp::gemm;
  KernelLaunch launch = KernelLaunch::graph;
  DataType dtype = DataType::bf16;  ///< of operands and elements

  std::uint64_t m = 0, n = 0, k = 0;     ///< C[m,n] = A[m,k] B[k,n], A activations, B weights
  std::uint32_t groups = 1;              ///< equal products in one launch, each with its own A and B: experts, a batch
  std::optional<DataType> result_dtype;  ///< none: dtype, but not below 16 bits
  /// Weights that take turns, kernel after kernel (benchmarks): they stay in L2 as far as all of them fit. 0: each use finds
  /// its weights gone from L2, as a pass over many layers does.
  std::uint32_t weight_copies = 0;
  bool split_k = true;  ///< K may be cut into parts; some libraries (DeepGEMM) never do
  bool steady = false;  ///< a GPU long at its power limit (training, long prefill), not a burst

  AttentionHeads heads;  ///< on this rank; its kv_dtype is the cache's
  std::vector<AttentionSequence> sequences;
  bool causal = true;
  bool split_context = true;  ///< decode; without, one thread block reads all of a sequence's KV head

  std::uint64_t tokens = 0, width = 0;  ///< rows and elements of a row
  bool residual = false, gated = false, dynamic = false, kv_cache = false;
  double load_bytes = 16;   ///< that a thread of a row's block asks for at once; 2 in scalar kernels of 16 bits
  bool cold = false;        ///< operands come from HBM and results go there; else they may be hits in L2
  std::uint64_t bytes = 0;  ///< of a copy
  double host_us = 20;      ///< launch: host and synchronous, what the framework takes for a call
};

/// @throws std::domain_error if the GPU has no tensor rate for the data type
KernelTime kernel_time(const GpuDatasheet& gpu, const KernelSpec& spec);

}  // namespace railyard::gpu
