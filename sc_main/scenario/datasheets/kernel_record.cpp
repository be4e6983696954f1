#include "sc_main/scenario/datasheets/kernel_record.h"

#include "sc_main/scenario/datasheets/gpu_record.h"

namespace railyard::scenario {

using gpu::DecodeKernel;
using gpu::KernelConstants;
using gpu::PrefillKernel;

namespace {

constexpr double kMostRatio = 100, kMostExponent = 100, kMostClocks = 1e6, kMostRows = 4096, kMostInstructions = 1e4;

template <class T>
Record<T> all_required(Record<T> r) {
  r.require_all();
  return r;
}

Record<PrefillKernel> prefill_record() {
  using P = PrefillKernel;
  Record<P> r;
  r.add("name", &P::name, "the kernel");
  r.add("products_ratio", &P::products_ratio, "rate of products, relative to matrix products under the power limit")
      .above(0, kMostRatio);
  r.add("operand_clocks", &P::operand_clocks,
        "exposed loads from shared memory, in clocks of a query-key pair with heads of 128")
      .range(0, kMostClocks);
  r.add("exponentials_ratio", &P::exponentials_ratio,
        "time of exponentials and what goes with them, relative to 16 a clock")
      .range(0, kMostRatio);
  r.add("overlap_exponent", &P::overlap_exponent,
        "exponent of the p-norm that joins products and exponentials; 1: their sum")
      .range(1, kMostExponent);
  r.add("splits", &P::splits, "a chunk with fewer thread blocks than SMs splits its context");
  r.add("block_ratio", &P::block_ratio, "fixed time of a thread block, relative to the GPU's attention_block_us")
      .range(0, kMostRatio);
  r.add("fixed_ratio", &P::fixed_ratio, "launch, prologue and drain, relative to the GPU's attention_fixed_us")
      .range(0, kMostRatio);
  r.add("persistent", &P::persistent, "a thread block loops over tiles and loads the next one during the products");
  r.add("query_rows", &P::query_rows, "query rows of a thread block; half of them on GPUs with small shared memory")
      .range(2, kMostRows);
  return all_required(r);
}

Record<DecodeKernel> decode_record() {
  using D = DecodeKernel;
  Record<D> r;
  r.add("name", &D::name, "the kernel");
  r.add("read_ratio", &D::read_ratio, "share of the rate at which memory can be read").range(1e-3, 1);
  r.add("flight_kib", &D::flight_kib, "data that a thread block has in flight").range(1e-3, 1 << 16);
  r.add("ctas_per_sm", &D::ctas_per_sm, "thread blocks that run on an SM at the same time").range(1, 64);
  r.add("split_blocks_per_sm", &D::split_blocks_per_sm, "contexts are split into at most so many thread blocks per SM")
      .range(1, 1024);
  r.add("block_us", &D::block_us, "time of a thread block in which it reads nothing").range(0, kMostUs);
  r.add("join_us", &D::join_us, "time to join the parts of a context").range(0, kMostUs);
  r.add("split_us", &D::split_us, "more, for each part").range(0, kMostUs);
  r.add("fixed_ratio", &D::fixed_ratio, "launch, prologue and drain, relative to the GPU's decode_attention_fixed_us")
      .range(0, kMostRatio);
  return all_required(r);
}

Record<KernelConstants::Attention> attention_record() {
  using A = KernelConstants::Attention;
  Record<A> r;
  r.add("loaded_latency_us", &A::loaded_latency_us,
        "latency of memory while all thread blocks read, with the work on a tile in between")
      .range(0, kMostUs);
  r.add("prefill_split_keys", &A::prefill_split_keys, "least keys in one part of a prompt's split context")
      .range(1, 1 << 20);
  r.add("tail_ratio", &A::tail_ratio, "share of the longest thread block during which the last ones run alone")
      .range(0, 1);
  r.add("prefill_overlap_exponent", &A::prefill_overlap_exponent, "p-norm of thread blocks and memory")
      .range(1, kMostExponent);
  r.add("decode_overlap_exponent", &A::decode_overlap_exponent, "p-norm of reading and computing")
      .range(1, kMostExponent);
  r.add("kept_l2_ratio", &A::kept_l2_ratio, "share of L2 for a KV cache that is read again").range(1e-3, 1);
  r.add("decode_products_ratio", &A::decode_products_ratio, "rate of decode's narrow tiles, relative to prefill")
      .range(1e-3, kMostRatio);
  r.add("backward_rate_ratio", &A::backward_rate_ratio, "rate of backward products, relative to the forward pass")
      .range(1e-3, kMostRatio);
  return all_required(r);
}

Record<KernelConstants::MixedAttention> mixed_record() {
  using M = KernelConstants::MixedAttention;
  Record<M> r;
  r.add("empty_block_us", &M::empty_block_us, "an SM's time for a thread block without rows").range(0, kMostUs);
  r.add("overlap_exponent", &M::overlap_exponent, "p-norm of thread blocks and memory").range(1, kMostExponent);
  r.add("tail_ratio", &M::tail_ratio, "share of the longest thread block during which the last ones run alone")
      .range(0, 1);
  return all_required(r);
}

Record<KernelConstants::MemoryBound> memory_bound_record() {
  using M = KernelConstants::MemoryBound;
  Record<M> r;
  r.add("wait_overlap_exponent", &M::wait_overlap_exponent, "p-norm of waits and the traffic of other threads")
      .range(1, kMostExponent);
  r.add("copy_l2_ratio", &M::copy_l2_ratio, "rate of a copy in L2, relative to a pure read").range(1e-3, kMostRatio);
  r.add("stream_latency_ratio", &M::stream_latency_ratio,
        "latency of a read of consecutive addresses, relative to one of random addresses")
      .range(0, kMostRatio);
  r.add("block_start_ns", &M::block_start_ns, "start of a thread block").range(0, kMostNs);
  r.add("loaded_latency_ratio", &M::loaded_latency_ratio, "latency of a read among others, relative to an idle one")
      .range(0, kMostRatio);
  r.add("l2_latency_ratio", &M::l2_latency_ratio, "latency of a hit in L2, relative to a read from memory").range(0, 1);
  r.add("further_pass_ratio", &M::further_pass_ratio,
        "latency of a further pass over a row, relative to a read from memory")
      .range(0, kMostRatio);
  return all_required(r);
}

Record<KernelConstants::RowKernels> row_kernels_record() {
  using R = KernelConstants::RowKernels;
  using I = KernelConstants::RowInstructions;
  Record<I> instructions;
  instructions.add("per_load", &I::per_load, "instructions of a thread for each load").range(0, kMostInstructions);
  instructions.add("per_element", &I::per_element, "instructions of a thread for each element")
      .range(0, kMostInstructions);
  const Record<I> each = all_required(instructions);
  Record<R> r;
  r.nested("norm", &R::norm, each, "norms");
  r.nested("activation", &R::activation, each, "activations");
  r.nested("rotary", &R::rotary, each, "rotary embedding");
  r.nested("softmax", &R::softmax, each, "softmax");
  return all_required(r);
}

Record<KernelConstants::Products> products_record() {
  using P = KernelConstants::Products;
  Record<P> r;
  r.add("dirty_l2_ratio", &P::dirty_l2_ratio, "share of L2 that leaves for memory, after a benchmark wrote over L2")
      .range(0, 1);
  r.add("widened_per_clock", &P::widened_per_clock, "narrow weights that an SM widens").above(0, kMostClocks);
  r.add("expert_step_us", &P::expert_step_us, "step of a product of experts in a serving engine").range(0, kMostUs);
  return all_required(r);
}

Record<KernelConstants::DeepGemm> deepgemm_record() {
  using D = KernelConstants::DeepGemm;
  Record<D> r;
  r.add("step_clocks", &D::step_clocks, "latency of a step").range(0, kMostClocks);
  r.add("cluster_clocks", &D::cluster_clocks, "more, in a cluster of two thread blocks").range(0, kMostClocks);
  return all_required(r);
}

Record<KernelConstants::StepPower> step_power_record() {
  using S = KernelConstants::StepPower;
  Record<S> r;
  r.add("idle_ratio", &S::idle_ratio, "power without load, as a share of the GPU's power_w").range(0, 0.99);
  r.add("waits_ratio", &S::waits_ratio, "the same while SMs wait for a collective").range(0, 1);
  r.add("transfers_ratio", &S::transfers_ratio, "the same of collectives beside products").range(0, 1);
  return all_required(r);
}

}  // namespace

Record<KernelConstants> kernel_record() {
  using K = KernelConstants;
  Record<K::Prefill> prefill;
  prefill.nested("flash", &K::Prefill::flash, prefill_record(), "FlashAttention's");
  prefill.nested("trtllm", &K::Prefill::trtllm, prefill_record(), "TensorRT-LLM's; without it, FlashAttention's");
  prefill.nested("cudnn", &K::Prefill::cudnn, prefill_record(), "cuDNN's; without it, FlashAttention's");
  Record<K::Decode> decode;
  decode.nested("flash", &K::Decode::flash, decode_record(), "FlashAttention's");
  decode.nested("xqa", &K::Decode::xqa, decode_record(),
                "TensorRT-LLM's for grouped heads; without it, FlashAttention's");
  decode.nested("masked", &K::Decode::masked, decode_record(),
                "TensorRT-LLM's for heads that share no KV and small grids; without it, FlashAttention's");
  decode.nested("cudnn", &K::Decode::cudnn, decode_record(), "cuDNN's; without it, FlashAttention's");
  Record<K> r;
  r.nested("prefill", &K::prefill, all_required(prefill), "kernels of prefill attention, by library");
  r.nested("decode", &K::decode, all_required(decode), "kernels of decode attention, by library");
  r.nested("attention", &K::attention, attention_record(), "all attention kernels");
  r.nested("mixed_attention", &K::mixed_attention, mixed_record(), "prompts and decodes in one kernel");
  r.nested("memory_bound", &K::memory_bound, memory_bound_record(), "kernels that move bytes");
  r.nested("row_instructions", &K::row_instructions, row_kernels_record(),
           "instructions of a thread of a kernel with a thread block for each row, in each pass");
  r.nested("products", &K::products, products_record(), "matrix products");
  r.nested("deepgemm", &K::deepgemm, deepgemm_record(), "DeepGEMM");
  r.nested("step_power", &K::step_power, step_power_record(), "power in a training step");
  return all_required(r);
}

}  // namespace railyard::scenario
