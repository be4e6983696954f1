// Constants of kernels that GPUs share, as read from platforms/datasheets/kernels/*.yaml (the keys are the field names; each
// sheet names its sources). Plain data.
//
// They are fitted numbers or published ones. What follows from the source of a library or from the hardware (tiles, rules
// that choose a kernel, limits of an SM) is in the code of kernels/. What differs from GPU to GPU is in GpuDatasheet::kernel.
#pragma once

#include <cstdint>
#include <string>

namespace railyard::gpu {

/// Prefill attention: what a thread block does on an SM, in clocks of a query-key pair with heads of 128. See
/// kernels/attention_kernels.h.
struct PrefillKernel {
  std::string name;
  double products_ratio = 0;      ///< rate of products, relative to matrix products under the power limit; on
                                  ///< Hopper attention leaves power for a higher clock
  double operand_clocks = 0;      ///< exposed loads from shared memory, per pair
  double exponentials_ratio = 0;  ///< time of exponentials and what goes with them, relative to 16 a clock
  double overlap_exponent = 0;    ///< of the p-norm that joins products and exponentials; 1: their sum
  bool splits = false;            ///< a chunk with fewer blocks than SMs splits its context
  double block_ratio = 0;        ///< fixed time of a thread block, relative to GpuDatasheet::Kernel::attention_block_us
  double fixed_ratio = 0;        ///< launch, prologue and drain, relative to attention_fixed_us
  bool persistent = false;       ///< a thread block loops over tiles and loads the next one during the products
  std::uint32_t query_rows = 0;  ///< of a thread block; half of them where shared memory is small
};

/// Decode attention: how a thread block reads.
struct DecodeKernel {
  std::string name;
  double read_ratio = 0;                  ///< share of the rate at which memory can be read
  double flight_kib = 0;                  ///< data that a thread block has in flight
  std::uint32_t ctas_per_sm = 0;          ///< thread blocks that run on an SM at the same time
  std::uint32_t split_blocks_per_sm = 0;  ///< contexts are split into at most so many blocks
  double block_us = 0;                    ///< of a thread block in which it reads nothing
  double join_us = 0, split_us = 0;       ///< to join parts of a context, once and for each part
  double fixed_ratio = 0;                 ///< launch, prologue and drain, relative to decode_attention_fixed_us
};

struct KernelConstants {
  /// By library (kernels/attention.h). A library without a kernel of its own has that of FlashAttention.
  struct Prefill {
    PrefillKernel flash, trtllm, cudnn;
  } prefill;

  /// The same; TensorRT-LLM chooses between XQA and masked multi-head attention.
  struct Decode {
    DecodeKernel flash, xqa, masked, cudnn;
  } decode;

  /// Of all attention kernels.
  struct Attention {
    double loaded_latency_us =
        0;  ///< of memory while a kernel's thread blocks all read, with work on a tile in between
    std::uint32_t prefill_split_keys = 0;  ///< least keys in one part of a prompt's split context
    double tail_ratio = 0;                 ///< share of the longest block during which the last blocks run alone
    double prefill_overlap_exponent = 0;   ///< p-norm of thread blocks and memory
    double decode_overlap_exponent = 0;    ///< p-norm of reading and computing
    double kept_l2_ratio = 0;              ///< of L2, for a KV cache that is read again
    double decode_products_ratio = 0;      ///< rate of decode's narrow tiles, relative to prefill
    double backward_rate_ratio = 0;        ///< rate of backward products, relative to the forward pass
  } attention;

  /// Prompts and decodes in one kernel (kernels/attention_mixed.h).
  struct MixedAttention {
    double empty_block_us = 0;    ///< an SM's time for a thread block without rows
    double overlap_exponent = 0;  ///< as prefill_overlap_exponent; decodes read while prompts compute
    double tail_ratio = 0;        ///< as that of a prefill kernel; blocks differ more
  } mixed_attention;

  /// Kernels that move bytes (kernels/memory_bound.h).
  struct MemoryBound {
    double wait_overlap_exponent = 0;  ///< p-norm of kernels in which waits overlap with traffic of other threads
    double copy_l2_ratio = 0;          ///< rate of a copy in L2, relative to a pure read
    double stream_latency_ratio = 0;   ///< latency of a read of consecutive addresses, relative to random ones
    double block_start_ns = 0;         ///< start of a thread block
    double loaded_latency_ratio = 0;   ///< relative to an idle read: queues
    double l2_latency_ratio = 0;       ///< latency of a hit in L2, relative to a read from memory
    double further_pass_ratio = 0;     ///< the same for a further pass over a row, which is in L1
  } memory_bound;

  /// Instructions of a thread of a kernel with a thread block for each row, in each pass.
  struct RowInstructions {
    double per_load = 0, per_element = 0;
  };
  struct RowKernels {
    RowInstructions norm, activation, rotary, softmax;
  } row_instructions;

  /// Matrix products (kernels/gemm.h).
  struct Products {
    double dirty_l2_ratio = 0;     ///< of L2 after a flush, that leaves for memory
    double widened_per_clock = 0;  ///< narrow weights that an SM widens
    double expert_step_us = 0;     ///< step of a product of experts in a serving engine
  } products;

  /// DeepGEMM (kernels/deepgemm.h).
  struct DeepGemm {
    double step_clocks = 0;     ///< latency of a step
    double cluster_clocks = 0;  ///< more, in a cluster of two thread blocks
  } deepgemm;

  /// Power in a training step (kernels/step_clock.h), as shares of GpuDatasheet::Sm::power_w.
  struct StepPower {
    double idle_ratio = 0;       ///< without load
    double waits_ratio = 0;      ///< while SMs wait for a collective
    double transfers_ratio = 0;  ///< of collectives beside products
  } step_power;
};

}  // namespace railyard::gpu
