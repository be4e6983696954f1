#define BOOST_TEST_MODULE kernels_spec
#include <boost/test/unit_test.hpp>

#include <stdexcept>
#include <vector>

#include "gpu/kernels/kernel_chain.h"
#include "gpu/kernels/kernel_spec.h"
#include "tests/gpu/kernels_datasheets.h"

using namespace railyard;
using namespace railyard::gpu;
using railyard::test::gpu_datasheet;
namespace tt = boost::test_tools;

namespace {

KernelSpec gemm(std::uint64_t m, std::uint64_t n, std::uint64_t k, DataType type = DataType::bf16) {
  KernelSpec spec;
  spec.m = m, spec.n = n, spec.k = k;
  spec.dtype = type;
  return spec;
}

KernelSpec attention(KernelOp op, AttentionHeads heads, std::vector<AttentionSequence> sequences) {
  KernelSpec spec;
  spec.op = op;
  spec.heads = heads;
  spec.sequences = std::move(sequences);
  return spec;
}

KernelSpec rows(KernelOp op, std::uint64_t tokens, std::uint64_t width) {
  KernelSpec spec;
  spec.op = op;
  spec.tokens = tokens, spec.width = width;
  spec.heads = {32, 8, 128, DataType::bf16};
  spec.bytes = tokens * width * 2;
  return spec;
}

const AttentionHeads kHeads{32, 8, 128, DataType::bf16};
/// DeepSeek-V3's latent attention as it decodes: 512 latent and 64 rotary numbers, of which the latent ones are the values.
AttentionHeads latent(std::uint32_t query) { return {query, 1, 576, DataType::bf16, 512, true}; }

std::vector<KernelSpec> one_of_each() {
  std::vector<KernelSpec> specs{gemm(512, 4096, 4096), attention(KernelOp::attention_prefill, kHeads, {{1024, 512}}),
                                attention(KernelOp::attention_backward, kHeads, {{1024, 0}}),
                                attention(KernelOp::attention_decode, kHeads, {{1, 5000}, {1, 300}}),
                                attention(KernelOp::attention_decode, latent(128), {{2, 4096}})};
  for (const KernelOp op :
       {KernelOp::rotary, KernelOp::norm, KernelOp::activation, KernelOp::residual_add, KernelOp::softmax,
        KernelOp::embedding, KernelOp::sampling, KernelOp::quantize, KernelOp::dequantize, KernelOp::copy})
    specs.push_back(rows(op, 700, 4096));
  return specs;
}

}  // namespace

// A chain keeps results; more shares than it keeps, asked for in any order, also after another kernel was added.
BOOST_AUTO_TEST_CASE(a_chain_gives_the_times_of_its_kernels) {
  const GpuDatasheet gpu = gpu_datasheet("H100-SXM5-80GB");
  KernelChain chain;
  for (const KernelSpec& spec : one_of_each()) {
    chain.add(kernel_time(gpu, spec));
    for (int round = 0; round < 2; ++round)
      for (const double sms : {132.0, 66.0, 1.0, 131.0})
        for (const double ratio : {1.0, 0.5})
          for (std::size_t i = 0; i < chain.kernels.size(); ++i) {
            const KernelShare share{sms, ratio, 1 - ratio / 4};
            BOOST_TEST(chain.seconds_on(i, share) == chain.kernels[i].seconds_on(share));
            BOOST_TEST(chain.seconds_on(i, share) == chain.kernels[i].seconds_on(share));
          }
  }
}

// What is said of a kernel is what its time is made of, alone and with a part of the GPU.
BOOST_AUTO_TEST_CASE(every_kernel_says_what_it_takes_of_the_gpu) {
  for (const char* name : {"H100-SXM5-80GB", "L40S"}) {
    const GpuDatasheet gpu = gpu_datasheet(name);
    const double sms = gpu.sm.count;
    for (KernelSpec spec : one_of_each())
      for (const KernelLaunch launch :
           {KernelLaunch::graph, KernelLaunch::stream, KernelLaunch::host, KernelLaunch::synchronous}) {
        spec.launch = launch;
        const KernelTime time = kernel_time(gpu, spec);
        BOOST_TEST_CONTEXT(name << " " << name_of(spec.op) << " " << name_of(launch)) {
          BOOST_TEST(time.seconds == time.seconds_on({sms}));
          BOOST_TEST(time.seconds > time.fixed_seconds);
          BOOST_TEST(time.seconds_on({sms / 2}) >= time.seconds);
          BOOST_TEST(time.seconds_on({sms / 2, 0.5, 0.5}) > time.seconds);
          BOOST_TEST(time.ctas > 0u);
          BOOST_TEST(time.ctas_per_sm > 0u);
          BOOST_TEST(time.l2_bytes > 0.0);
          BOOST_TEST(time.bytes <=
                     time.l2_bytes * 1.0001 + 4.0 * 512 * 4096);  // of a result that goes to HBM by way of L2
        }
      }
  }
}

BOOST_AUTO_TEST_CASE(launches_differ_by_what_starts_them) {
  const GpuDatasheet gpu = gpu_datasheet("A100-SXM4-80GB");
  KernelSpec spec = rows(KernelOp::residual_add, 1024, 4096);
  const double graph = kernel_time(gpu, spec).seconds;
  const auto with = [&](KernelLaunch launch, double host_us) {
    spec.launch = launch, spec.host_us = host_us;
    return kernel_time(gpu, spec).seconds;
  };
  BOOST_TEST(with(KernelLaunch::stream, 0) - graph == (gpu.kernel.stream_launch_us - gpu.kernel.launch_us) * 1e-6,
             tt::tolerance(1e-9));
  BOOST_TEST(with(KernelLaunch::synchronous, 21) == graph + 21e-6, tt::tolerance(1e-9));
  BOOST_TEST(with(KernelLaunch::host, 200) == 200e-6, tt::tolerance(1e-9));  // the host is slower than the kernel
  BOOST_TEST(with(KernelLaunch::host, 1) == graph, tt::tolerance(1e-9));
}

// Weights that fit in L2 with the others of their turn are not read from HBM.
BOOST_AUTO_TEST_CASE(weights_that_take_turns_stay_in_l2_while_they_fit) {
  const GpuDatasheet gpu = gpu_datasheet("L40S");
  const double weights = 2.0 * 4096 * 2048, rest = 2.0 * 64 * (4096 + 2048);
  KernelSpec spec = gemm(64, 4096, 2048);
  BOOST_TEST(kernel_time(gpu, spec).bytes == weights + rest);
  spec.weight_copies = 1;
  BOOST_TEST(kernel_time(gpu, spec).bytes == rest);
  spec.weight_copies = 100;
  BOOST_TEST(kernel_time(gpu, spec).bytes == weights + rest);
}

BOOST_AUTO_TEST_CASE(block_scaled_types_run_as_fast_and_carry_their_scales) {
  const GpuDatasheet b200 = gpu_datasheet("B200-SXM-180GB");
  const double fp8 = kernel_time(b200, gemm(1, 16384, 16384, DataType::fp8)).bytes;
  BOOST_TEST(kernel_time(b200, gemm(1, 16384, 16384, DataType::mxfp8)).bytes / fp8 == 33.0 / 32, tt::tolerance(1e-3));
  BOOST_TEST(kernel_time(b200, gemm(1, 16384, 16384, DataType::nvfp4)).bytes / fp8 == 9.0 / 16, tt::tolerance(1e-3));
  const double narrow = kernel_time(b200, gemm(16384, 16384, 16384, DataType::nvfp4)).seconds;
  BOOST_TEST(kernel_time(b200, gemm(16384, 16384, 16384, DataType::mxfp8)).seconds / narrow > 1.6);
  BOOST_CHECK_THROW(kernel_time(gpu_datasheet("H100-SXM5-80GB"), gemm(1, 128, 128, DataType::mxfp8)),
                    std::domain_error);
}

// One row of fp8 through 1024 x 8192 on an H100, its scale found first: 17.1 us (ai-dynamo/aiconfigurator 095f58a).
BOOST_AUTO_TEST_CASE(a_dynamic_scale_is_most_of_a_small_fp8_product) {
  const GpuDatasheet h100 = gpu_datasheet("H100-SXM5-80GB");
  KernelSpec product = gemm(1, 1024, 8192, DataType::fp8), quantize = rows(KernelOp::quantize, 1, 8192);
  product.weight_copies = 5;
  quantize.dtype = DataType::fp8, quantize.dynamic = true;
  const double scale = kernel_time(h100, quantize).seconds;
  BOOST_TEST(scale + kernel_time(h100, product).seconds == 17.1e-6, tt::tolerance(0.08));
  quantize.dynamic = false;
  BOOST_TEST(scale - kernel_time(h100, quantize).seconds > 0.9 * h100.kernel.dynamic_scale_us * 1e-6);
}

// scale_matrix tables of vLLM 0.24 (B200) and TensorRT-LLM 1.3.0rc10 and rc20, computescale tables of the latter
// (ai-dynamo/aiconfigurator 095f58a), us. TensorRT-LLM's own cast on B200 takes 113 us.
BOOST_AUTO_TEST_CASE(casts_run_at_the_rate_of_memory_and_a_search_of_the_scale_may_not) {
  const struct {
    const char* gpu;
    double cast_us, search_us;
  } measured[] = {{"H100-SXM5-80GB", 199.3, 311.9}, {"B200-SXM-180GB", 89.0, 131.3}, {"L40S", 880.1, 588.7}};
  for (const auto& [name, cast_us, search_us] : measured) {
    const GpuDatasheet gpu = gpu_datasheet(name);
    KernelSpec quantize = rows(KernelOp::quantize, 16384, 12288);
    quantize.dtype = DataType::fp8;
    BOOST_TEST(1e6 * kernel_time(gpu, quantize).seconds == cast_us, tt::tolerance(0.1));
    quantize.dynamic = true;
    BOOST_TEST(1e6 * kernel_time(gpu, quantize).seconds == cast_us + search_us, tt::tolerance(0.1));
  }
}

BOOST_AUTO_TEST_CASE(a_causal_mask_halves_a_long_prompt) {
  const GpuDatasheet h100 = gpu_datasheet("H100-SXM5-80GB");
  KernelSpec spec = attention(KernelOp::attention_prefill, kHeads, {{32768, 0}});
  const KernelTime causal = kernel_time(h100, spec);
  spec.causal = false;
  const KernelTime full = kernel_time(h100, spec);
  BOOST_TEST(full.flops / causal.flops == 2.0, tt::tolerance(1e-4));
  BOOST_TEST(full.seconds / causal.seconds == 2.0, tt::tolerance(0.03));
}

// Backward: five products for two. FlashAttention-2's own benchmark on an A100, heads of 64, forward and backward: 179.5 TFLOP/s
// (Azure AI-benchmarking-guide 8fd0c6e); the serving kernels that the datasheet is fitted to are slower than that one.
BOOST_AUTO_TEST_CASE(backward_does_two_and_a_half_times_the_work) {
  const GpuDatasheet a100 = gpu_datasheet("A100-SXM4-80GB");
  KernelSpec spec = attention(KernelOp::attention_prefill, {32, 32, 64, DataType::fp16}, {{8192, 0}, {8192, 0}});
  spec.causal = false;
  const KernelTime forward = kernel_time(a100, spec);
  spec.op = KernelOp::attention_backward;
  const KernelTime backward = kernel_time(a100, spec);
  BOOST_TEST(backward.flops == 2.5 * forward.flops);
  const double rate = (forward.flops + backward.flops) / (forward.seconds + backward.seconds);
  BOOST_TEST(rate < 179.5e12);
  BOOST_TEST(rate > 0.7 * 179.5e12);
}

// FlashAttention-3 paper, H100, 16384 tokens without a mask: 497, 648 and 756 TFLOP/s with heads of 64, 128 and 256.
BOOST_AUTO_TEST_CASE(wider_heads_hide_more_of_the_exponentials) {
  const GpuDatasheet h100 = gpu_datasheet("H100-SXM5-80GB");
  const auto rate = [&](std::uint32_t dim) {
    KernelSpec spec =
        attention(KernelOp::attention_prefill, {2048 / dim, 2048 / dim, dim, DataType::bf16}, {{65536, 0}});
    spec.causal = false;
    const KernelTime time = kernel_time(h100, spec);
    return time.flops / time.seconds;
  };
  BOOST_TEST(rate(64) / rate(128) == 497.0 / 648, tt::tolerance(0.03));
  BOOST_TEST(rate(256) / rate(128) == 756.0 / 648, tt::tolerance(0.03));
}

BOOST_AUTO_TEST_CASE(a_batch_is_as_many_heads) {
  const GpuDatasheet l40s = gpu_datasheet("L40S");
  const std::vector<AttentionSequence> two{{1000, 200}, {1000, 200}}, one{{1000, 200}};
  const AttentionHeads twice{64, 16, 128, DataType::bf16};
  for (const KernelOp op : {KernelOp::attention_prefill, KernelOp::attention_backward})
    BOOST_TEST(
        kernel_time(l40s, attention(op, kHeads, two)).seconds == kernel_time(l40s, attention(op, twice, one)).seconds,
        tt::tolerance(1e-12));
}

// Latent attention of an H800 (deepseek-ai/FlashMLA README, 2025-04-22): 3000 GB/s where memory binds, 660 TFLOP/s where tensor
// cores do. Few heads share the latent vectors in the first case, all 128 and a speculated token in the second.
BOOST_AUTO_TEST_CASE(latent_attention_turns_from_memory_to_tensor_cores) {
  const GpuDatasheet h800 = gpu_datasheet("H800-SXM5-80GB");
  const KernelTime memory = kernel_time(h800, attention(KernelOp::attention_decode, latent(16), {128, {1, 16384}}));
  BOOST_TEST(name_of(memory.limit) == std::string("hbm"));
  BOOST_TEST(memory.bytes / memory.seconds == 3000e9, tt::tolerance(0.05));
  const KernelTime tensor = kernel_time(h800, attention(KernelOp::attention_decode, latent(128), {128, {2, 16384}}));
  BOOST_TEST(name_of(tensor.limit) == std::string("tensor"));
  BOOST_TEST(tensor.flops / tensor.seconds == 660e12, tt::tolerance(0.1));
  BOOST_TEST(memory.bytes > 128.0 * 16384 * 576 * 2);  // keys that are values too come once
  BOOST_TEST(memory.bytes < 1.01 * 128.0 * 16384 * 576 * 2);
}

// FlashAttention-2 gives one block all of a sequence's KV head where heads are not grouped: 8 heads of 32768 tokens take an A100
// 764.5 us (ai-dynamo/aiconfigurator 095f58a, vLLM), of grouped heads, whose contexts are split, a small part of it.
BOOST_AUTO_TEST_CASE(an_unsplit_context_is_one_blocks_walk) {
  const GpuDatasheet a100 = gpu_datasheet("A100-SXM4-80GB");
  KernelSpec multi = attention(KernelOp::attention_decode, {8, 8, 128, DataType::bf16}, {{1, 32767}});
  multi.split_context = false;
  BOOST_TEST(kernel_time(a100, multi).seconds == 764.5e-6, tt::tolerance(0.1));
  const KernelSpec grouped = attention(KernelOp::attention_decode, {8, 1, 128, DataType::bf16}, {{1, 32767}});
  BOOST_TEST(kernel_time(a100, grouped).seconds < 764.5e-6 / 5);
}

// A block for each row: until every SM has its blocks, more rows cost nothing but their bytes; a norm of 4096 of an H100 took 4 us
// for one row as for 128, 7 for 512, 13 for 1024 (microsoft/vidur 7d47513, scalar kernels, whole microseconds).
BOOST_AUTO_TEST_CASE(rows_wait_in_waves) {
  const GpuDatasheet h100 = gpu_datasheet("H100-SXM5-80GB");
  const auto norm = [&](std::uint64_t tokens, double load_bytes) {
    KernelSpec spec = rows(KernelOp::norm, tokens, 4096);
    spec.load_bytes = load_bytes;
    return kernel_time(h100, spec);
  };
  const struct {
    std::uint64_t tokens;
    double us;
  } measured[] = {{1, 3.5}, {128, 4}, {512, 7}, {1024, 13}};
  for (const auto& row : measured) BOOST_TEST(norm(row.tokens, 2).seconds == row.us * 1e-6, tt::tolerance(0.2));
  BOOST_TEST(norm(264, 2).waves == 1u);
  BOOST_TEST(norm(265, 2).waves == 2u);
  BOOST_TEST(norm(1024, 16).seconds < 0.6 * norm(1024, 2).seconds);
}
