#define BOOST_TEST_MODULE kernels_attention_mixed
#include <boost/test/unit_test.hpp>

#include <cmath>
#include <random>

#include "gpu/kernels/attention_blocks.h"
#include "gpu/kernels/attention_mixed.h"
#include "tests/gpu/kernels_datasheets.h"

using namespace railyard;
using namespace railyard::gpu;
using railyard::test::gpu_datasheet;
using Sequences = std::vector<AttentionSequence>;

namespace {

const AttentionHeads kLlama8b{32, 8, 128, DataType::bf16};
const char* const kGpus[] = {"A100-SXM4-80GB", "L40S", "RTX-4090", "H100-SXM5-80GB", "B200-SXM-180GB"};

Sequences decodes_of(std::size_t count, std::uint64_t before) { return Sequences(count, {1, before}); }

double seconds(const GpuDatasheet& gpu, const Sequences& prefills, const Sequences& decodes) {
  return mixed_attention(gpu, kLlama8b, prefills, decodes).time(gpu).seconds;
}

/// A point of tp1/attention.csv in the RTX 4090 profile of Llama-3.1-8B (casys-kaist/LLMServingSim 2.0), with the
/// measured times of its parts.
struct Point {
  std::uint64_t chunk, before, decodes, context;
  double prefill_us, row_us, decode_us;  // row: a chunk of 16 tokens, which is one block of rows, after `context`
  double mixed_us;
};
constexpr Point kMeasured[] = {
    {64, 0, 8, 512, 10.1863, 25.0337, 35.54, 59.6247},
    {64, 0, 8, 4096, 10.1863, 136.61, 164.678, 279.616},
    {64, 0, 64, 512, 10.1863, 25.0337, 191.925, 365.839},
    {64, 0, 64, 4096, 10.1863, 136.61, 1184.96, 2337.91},
    {64, 2048, 8, 512, 73.3413, 25.0337, 35.54, 114.467},
    {64, 2048, 8, 4096, 73.3413, 136.61, 164.678, 394.729},
    {64, 2048, 64, 512, 73.3413, 25.0337, 191.925, 430.92},
    {64, 2048, 64, 4096, 73.3413, 136.61, 1184.96, 2410.01},
    {512, 0, 8, 512, 41.0747, 25.0337, 35.54, 89.339},
    {512, 0, 8, 4096, 41.0747, 136.61, 164.678, 364.985},
    {512, 0, 64, 512, 41.0747, 25.0337, 191.925, 427.235},
    {512, 0, 64, 4096, 41.0747, 136.61, 1184.96, 2384.34},
    {512, 2048, 8, 512, 165.937, 25.0337, 35.54, 247.659},
    {512, 2048, 8, 4096, 165.937, 136.61, 164.678, 488.896},
    {512, 2048, 64, 512, 165.937, 25.0337, 191.925, 581.877},
    {512, 2048, 64, 4096, 165.937, 136.61, 1184.96, 4038.09},
    {2048, 0, 8, 512, 336.126, 25.0337, 35.54, 399.611},
    {2048, 0, 8, 4096, 336.126, 136.61, 164.678, 668.053},
    {2048, 0, 64, 512, 336.126, 25.0337, 191.925, 841.447},
    {2048, 0, 64, 4096, 336.126, 136.61, 1184.96, 3670.55},
    {2048, 2048, 8, 512, 813.484, 25.0337, 35.54, 923.718},
    {2048, 2048, 8, 4096, 813.484, 136.61, 164.678, 1149.81},
    {2048, 2048, 64, 512, 813.484, 25.0337, 191.925, 1366.98},
    {2048, 2048, 64, 4096, 813.484, 136.61, 1184.96, 4698.59},
};

}  // namespace

BOOST_AUTO_TEST_CASE(one_kind_alone_is_its_own_kernel) {
  const Sequences prompts{{300, 1000}, {64, 0}}, decodes = decodes_of(5, 3000);
  for (const char* name : kGpus) {
    const GpuDatasheet gpu = gpu_datasheet(name);
    BOOST_TEST(seconds(gpu, prompts, {}) == prefill_attention_time(gpu, kLlama8b, prompts).seconds);
    BOOST_TEST(seconds(gpu, {}, decodes) == decode_attention_time(gpu, kLlama8b, decodes).seconds);
  }
}

BOOST_AUTO_TEST_CASE(a_short_decode_beside_a_long_prompt_costs_nearly_nothing) {
  for (const char* name : kGpus) {
    const GpuDatasheet gpu = gpu_datasheet(name);
    const double alone = prefill_attention_time(gpu, kLlama8b, {{8192, 0}}).seconds;
    const double mixed = seconds(gpu, {{8192, 0}}, decodes_of(1, 15));
    BOOST_TEST(mixed >= alone);
    BOOST_TEST(mixed < 1.06 * alone, name);  // SMs idle longer at the end of a mixed kernel
  }
}

BOOST_AUTO_TEST_CASE(a_mixed_kernel_is_never_faster_than_either_kind_alone) {
  std::mt19937 random(7);
  const auto draw = [&](std::uint64_t most) { return std::uniform_int_distribution<std::uint64_t>(0, most)(random); };
  for (const char* name : kGpus) {
    const GpuDatasheet gpu = gpu_datasheet(name);
    for (int i = 0; i < 500; ++i) {
      Sequences prompts, decodes;
      for (std::uint64_t n = 1 + draw(3); n > 0; --n) prompts.push_back({1 + draw(2000), draw(1) * draw(20000)});
      for (std::uint64_t n = 1 + draw(1) * draw(200); n > 0; --n) decodes.push_back({1, draw(20000)});
      const double mixed = seconds(gpu, prompts, decodes);
      const double prefill = prefill_attention_time(gpu, kLlama8b, prompts).seconds;
      const double decode = decode_attention_time(gpu, kLlama8b, decodes).seconds;
      BOOST_TEST(mixed >= prefill);
      BOOST_TEST(mixed >= decode);
      BOOST_TEST(std::isfinite(mixed));
    }
  }
}

BOOST_AUTO_TEST_CASE(more_context_and_more_decodes_take_longer) {
  for (const char* name : kGpus) {
    const GpuDatasheet gpu = gpu_datasheet(name);
    for (const std::size_t count : {1, 4, 16, 100}) {
      double last = 0;
      for (std::uint64_t before = 0; before < 40000; before += 1 + before / 10) {
        const double now = seconds(gpu, {{512, 1024}}, decodes_of(count, before));
        BOOST_TEST(now >= last, name << " " << count << " after " << before);
        last = now;
      }
    }
    for (const std::uint64_t before : {15, 1000, 10000}) {
      double last = 0;
      for (std::size_t count = 1; count < 300; count += 1 + count / 10) {
        const double now = seconds(gpu, {{512, 1024}}, decodes_of(count, before));
        BOOST_TEST(now >= last, name << " " << count << " after " << before);
        last = now;
      }
    }
  }
}

// Without empty blocks (a chunk of one block), a decode on the SMs is a prompt of one token.
BOOST_AUTO_TEST_CASE(a_decode_takes_a_block_of_query_rows) {
  const GpuDatasheet gpu = gpu_datasheet("RTX-4090");
  const Sequences all(9, {1, 4000});
  const KernelTime mixed = mixed_attention(gpu, kLlama8b, {{1, 4000}}, decodes_of(8, 4000)).time(gpu);
  const KernelTime prompts = prefill_attention_time(gpu, kLlama8b, all, true, AttentionPass::forward, false);
  BOOST_TEST(mixed.sm_seconds == prompts.sm_seconds, boost::test_tools::tolerance(1e-12));
  BOOST_TEST(mixed.longest_cta_seconds == prompts.longest_cta_seconds);
  BOOST_TEST(mixed.ctas == 9u * kLlama8b.query);
  BOOST_TEST(mixed.flops == prompts.flops);
}

// Each sequence has the blocks of the longest chunk, in each head. An empty block costs a share of a full one.
BOOST_AUTO_TEST_CASE(empty_blocks_follow_the_longest_chunk) {
  const GpuDatasheet gpu = gpu_datasheet("RTX-4090");
  const auto empty = [&](const Sequences& prompts, std::size_t decodes) {
    return mixed_attention(gpu, kLlama8b, prompts, decodes_of(decodes, 100)).empty_block_seconds;
  };
  const std::uint64_t rows = query_rows(gpu, AttentionLibrary::flash);
  const double one = empty({{2 * rows, 0}}, 1);
  BOOST_TEST(one > 0);
  BOOST_TEST(one < kLlama8b.query * prefill_attention_time(gpu, kLlama8b, {{rows, 0}}).longest_cta_seconds);
  BOOST_TEST(empty({{rows, 0}}, 50) == 0);
  BOOST_TEST(empty({{32 * rows, 0}}, 50) == 50 * 31 * one, boost::test_tools::tolerance(1e-12));
  BOOST_TEST(empty({{4 * rows, 0}, {rows, 0}}, 7) == (7 * 3 + 3) * one, boost::test_tools::tolerance(1e-12));
}

// The four query heads of a group read their KV one after the other if 128 sequences fill the 128 SMs with blocks of one
// head, and L2 does not hold this head.
BOOST_AUTO_TEST_CASE(a_group_reads_its_kv_again_if_l2_is_too_small) {
  const GpuDatasheet ada = gpu_datasheet("RTX-4090");
  const auto reads = [](const GpuDatasheet& gpu, std::size_t decodes, std::uint64_t context) {
    return mixed_attention(gpu, kLlama8b, {{16, 0}}, decodes_of(decodes, context)).kv_reads;
  };
  BOOST_TEST(reads(ada, 128, 8192) == 4);
  BOOST_TEST(reads(ada, 128, 512) == 1);   // 34 MB of one head
  BOOST_TEST(reads(ada, 31, 16384) == 1);  // all heads of a group run at the same time
  BOOST_TEST(reads(ada, 63, 16384) == 2);
  BOOST_TEST(reads(gpu_datasheet("H100-SXM5-80GB"), 128, 8192) == 1);
}

// FlashAttention-3 has a block for each KV head, so decodes take a quarter of the SMs' time.
BOOST_AUTO_TEST_CASE(packed_groups_take_fewer_blocks) {
  const GpuDatasheet gpu = gpu_datasheet("H100-SXM5-80GB");
  const Sequences decodes = decodes_of(64, 4000);
  const MixedAttention parts = mixed_attention(gpu, kLlama8b, {{1024, 0}}, decodes);
  const double unpacked = prefill_attention_time(gpu, kLlama8b, decodes).sm_seconds;
  BOOST_TEST(parts.rows.ctas == 64u * kLlama8b.kv);
  BOOST_TEST(parts.rows.sm_seconds == unpacked / 4, boost::test_tools::tolerance(1e-12));
  BOOST_TEST(parts.empty_block_seconds == 0);
}

BOOST_AUTO_TEST_CASE(measured_parts_give_the_measured_mixture) {
  const GpuDatasheet gpu = gpu_datasheet("RTX-4090");
  double rule_error = 0, sum_error = 0;  // mean of the absolute logarithm
  for (const Point& p : kMeasured) {
    const Sequences decodes = decodes_of(p.decodes, p.context);
    MixedAttention parts = mixed_attention(gpu, kLlama8b, {{p.chunk, p.before}}, decodes);
    const double row = mixed_attention(gpu, kLlama8b, {{p.chunk, p.before}}, {decodes[0]}).rows.seconds;
    parts.prefill = parts.prefill.taking(p.prefill_us * 1e-6);
    parts.rows = parts.rows.taking(parts.rows.seconds * p.row_us * 1e-6 / row);
    parts.decode = parts.decode.taking(p.decode_us * 1e-6);
    rule_error += std::abs(std::log(parts.time(gpu).seconds * 1e6 / p.mixed_us)) / std::size(kMeasured);
    sum_error += std::abs(std::log((p.prefill_us + p.decode_us) / p.mixed_us)) / std::size(kMeasured);
  }
  BOOST_TEST(rule_error < 0.10);
  BOOST_TEST(sum_error > 0.40);
}
