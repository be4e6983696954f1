// The room `kernels` has the times of kernels as formulas, in plain C++. A KernelSpec names an operation and its sizes;
// kernel_time() calls the formula: gemm.h, deepgemm.h, attention.h, attention_mixed.h, memory_bound.h. The result is a
// KernelTime with its limit; KernelTimer keeps results, KernelChain joins kernels. step_clock.h has the clock of whole
// training steps. Callers are plans of layers (transformer), the kinds kernel and overlap, and calibration.
//
// A kernel in the terms of a user, of any kind that the formulas of this folder cover, and its time on a GPU.
//
// Each operation uses its own fields:
//   gemm                those of GemmShape
//   attention_prefill   heads, sequences (tokens after kv_start each), causal
//   attention_backward  the same; gradients of queries, keys and values; scores are recomputed
//   attention_decode    heads, sequences (one or a few tokens after kv_start keys each), split_context, kv_in_l2
//   rotary              tokens, heads; kv_cache: also writes the tokens' keys and values to the cache
//   norm                tokens x width; residual: also adds and writes back the residual stream; result_dtype: of the
//                       normalised numbers
//   activation          tokens x width results; gated (SwiGLU, GeGLU): two inputs per result
//   residual_add softmax embedding     tokens x width
//   sampling            tokens x width logits
//   quantize            tokens x width from 16 bits to dtype; dynamic: first finds the scale of the whole tensor
//   dequantize          tokens x width from dtype to 16 bits
//   copy                bytes, read once and written once; threads, if they are fewer than fit on the SMs
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "gpu/kernels/attention.h"
#include "gpu/kernels/gemm.h"

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

/// How the kernel is started. This sets the gap between the end of the previous kernel and the first work of this one.
enum class KernelLaunch : std::uint8_t {
  graph,        ///< by a CUDA graph, at the end of the previous kernel
  stream,       ///< from a stream that the host keeps filled
  host,         ///< by calls of a framework in eager mode: not before the host has issued the call
  synchronous,  ///< by a framework that waits for each kernel before it starts the next
};
constexpr std::array<const char*, 4> kKernelLaunchNames{"graph", "stream", "host", "synchronous"};
constexpr const char* name_of(KernelLaunch launch) { return kKernelLaunchNames[static_cast<std::size_t>(launch)]; }

/// `dtype` of GemmShape is the type of operands and elements of every operation.
struct KernelSpec : GemmShape {
  KernelOp op = KernelOp::gemm;
  KernelLaunch launch = KernelLaunch::graph;

  AttentionHeads heads;  ///< heads on this rank; kv_dtype is the type of the cache
  std::vector<AttentionSequence> sequences;
  bool causal = true;
  bool split_context = true;  ///< decode: false means that one thread block reads a KV head of a sequence completely

  bool kv_in_l2 = false;  ///< decode: the kernel before it read the same KV, which is still in L2 as far as it fits

  std::uint64_t tokens = 0, width = 0;  ///< rows, and elements per row
  bool residual = false, gated = false, dynamic = false, kv_cache = false;
  std::uint32_t copies = 1;   ///< quantize: results, if a second one is for products along the other dimension
  double load_bytes = 16;     ///< bytes per load of a thread; 2 in scalar 16-bit kernels; copy: also per store
  bool cold = false;          ///< operands and results are in HBM; otherwise they may be in L2
  std::uint64_t bytes = 0;    ///< copy
  std::uint64_t threads = 0;  ///< copy: threads on the whole GPU, each with one load in flight; 0: enough
  double host_us = 20;        ///< launches host and synchronous: time of a call in the framework
};

/// @throws std::domain_error if the GPU has no tensor rate for the data type, or the library no kernel for the product
KernelTime kernel_time(const GpuDatasheet& gpu, const KernelSpec& spec);

}  // namespace railyard::gpu
