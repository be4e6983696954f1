#define BOOST_TEST_MODULE kernels_attention
#include <boost/test/unit_test.hpp>

#include <cmath>

#include "base/units.h"
#include "gpu/kernels/attention.h"
#include "gpu/kernels/attention_kernels.h"
#include "gpu/kernels/device_terms.h"
#include "gpu/kernels/flash_attention.h"
#include "tests/gpu/kernels_datasheets.h"

using namespace railyard;
using namespace railyard::gpu;
using railyard::test::gpu_datasheet;

namespace {

const AttentionHeads kLlama70bTp4{16, 2, 128, DataType::bf16};
const AttentionHeads kLlama70bTp1{64, 8, 128, DataType::bf16};
const auto kExact = boost::test_tools::tolerance(1e-12);

}  // namespace

// The sum over chunks of "queries of chunk c against the keys of chunks 0..c" is the whole prompt's causal triangle.
BOOST_AUTO_TEST_CASE(chunks_add_up_to_the_causal_triangle) {
  const std::uint64_t prompt = 4096 + 77;
  const double whole = attention_flops(kLlama70bTp4, {prompt, 0});
  BOOST_TEST(whole == 4.0 * 16 * 128 * prompt * (prompt + 1) / 2);
  for (const std::uint64_t chunk : {1, 100, 256, 1000, 5000}) {
    double sum = 0;
    for (std::uint64_t start = 0; start < prompt; start += chunk)
      sum += attention_flops(kLlama70bTp4, {std::min(chunk, prompt - start), start});
    BOOST_TEST(sum == whole);
  }
}

BOOST_AUTO_TEST_CASE(later_chunks_attend_to_earlier_ones) {
  for (const char* name : {"L40S", "H100-SXM5-80GB"}) {
    const GpuDatasheet gpu = gpu_datasheet(name);
    double last = 0;
    for (std::uint64_t start = 0; start <= 16384; start += 1024) {
      const double now = prefill_attention_time(gpu, kLlama70bTp4, {{1024, start}}).seconds;
      BOOST_TEST(now > last);
      last = now;
    }
    const double first = prefill_attention_time(gpu, kLlama70bTp4, {{1024, 0}}).seconds;
    BOOST_TEST(last > 10 * first - 10 * gpu.kernel.attention_fixed_us * 1e-6);
  }
}

// Where every chunk fills the SMs, cutting a prompt costs the launches and tails, not the work again.
BOOST_AUTO_TEST_CASE(chunking_costs_launches_not_work) {
  const GpuDatasheet gpu = gpu_datasheet("H100-SXM5-80GB");
  const double whole = prefill_attention_time(gpu, kLlama70bTp1, {{16384, 0}}).seconds;
  double sum = 0;
  for (std::uint64_t start = 0; start < 16384; start += 2048)
    sum += prefill_attention_time(gpu, kLlama70bTp1, {{2048, start}}).seconds;
  BOOST_TEST(sum > whole);
  BOOST_TEST(sum < 1.15 * whole);
}

BOOST_AUTO_TEST_CASE(few_heads_and_rows_cannot_fill_the_sms) {
  const GpuDatasheet gpu = gpu_datasheet("H100-SXM5-80GB");
  const KernelTime narrow = prefill_attention_time(gpu, {1, 1, 128, DataType::bf16}, {{512, 256}});
  const KernelTime wide = prefill_attention_time(gpu, {16, 1, 128, DataType::bf16}, {{512, 256}});
  BOOST_TEST(narrow.sms == 4u);
  BOOST_TEST(wide.sms == 64u);
  // Both wait for their longest block; 64 blocks move more queries and outputs.
  BOOST_TEST(narrow.longest_cta_seconds == wide.longest_cta_seconds);
  BOOST_TEST(narrow.seconds == wide.seconds, boost::test_tools::tolerance(0.05));
}

// The last, short chunk of a long prompt: few blocks with a long context, which idle SMs share.
BOOST_AUTO_TEST_CASE(long_contexts_are_split_over_idle_sms) {
  const GpuDatasheet gpu = gpu_datasheet("H100-SXM5-80GB");
  const KernelTime time = prefill_attention_time(gpu, {8, 1, 128, DataType::bf16}, {{16, 65536}});
  BOOST_TEST(time.sms > 100u);
  const KernelTime full = prefill_attention_time(gpu, {8, 1, 128, DataType::bf16}, {{2048, 65536}});
  BOOST_TEST(time.seconds < full.seconds / 4);
  double last = 0;
  for (std::uint64_t start = 0; start < 131072; start += 1 + start / 20) {
    const double now = prefill_attention_time(gpu, {8, 1, 128, DataType::bf16}, {{16, start}}).seconds;
    BOOST_TEST(now >= last);
    last = now;
  }
}

// With heads of 128 numbers a pair of query and key takes a tensor core 512 FLOP, which overlap with an exponential, 16 of
// which an SM does in a clock; a block of 128 rows takes its fixed time and, on average of a causal prompt, half of the keys.
BOOST_AUTO_TEST_CASE(long_prompts_reach_the_saturated_rate) {
  const GpuDatasheet gpu = gpu_datasheet("H100-SXM5-80GB");
  const double s = 65536;
  const KernelTime time = prefill_attention_time(gpu, kLlama70bTp1, {{static_cast<std::uint64_t>(s), 0}});
  const double pair = std::pow(std::pow(512 / 4096.0 / 1.192, 1.35) + std::pow(0.839 / 16, 1.35), 1 / 1.35);
  const double pairs = 64 * s * s / 2, blocks = 64 * s / 128;
  const double rate = gpu.kernel.attention_ratio * gpu.sm.sustained_efficiency_ratio * 1830e6;
  const double seconds = (pairs * pair / rate + blocks * gpu.kernel.attention_block_us * 1e-6) / 132;
  BOOST_TEST(time.seconds == seconds, boost::test_tools::tolerance(0.01));
}

// Warp-wide instructions do products, loads from shared memory and exponentials one after the other; smaller heads hide
// fewer exponentials.
BOOST_AUTO_TEST_CASE(kernels_differ_by_their_instructions) {
  const GpuDatasheet a100 = gpu_datasheet("A100-SXM4-80GB"), h100 = gpu_datasheet("H100-SXM5-80GB");
  const GpuDatasheet card = gpu_datasheet("RTX-5090"), b200 = gpu_datasheet("B200-SXM-180GB");
  const auto flash = [](const GpuDatasheet& gpu) { return prefill_kernel(gpu, AttentionLibrary::flash); };
  BOOST_TEST(pair_clocks(a100, flash(a100), 128) == 512 / 2048.0 + 0.0625 + 1.2 / 16,
             boost::test_tools::tolerance(1e-12));
  BOOST_TEST(flash(card).name == flash(a100).name);
  BOOST_TEST(flash(h100).name != flash(b200).name);
  for (const GpuDatasheet& gpu : {a100, h100, card, b200}) {
    // Shah et al., arXiv 2407.08608: 0.77 of the rate with heads of 64.
    const double of_64 = pair_clocks(gpu, flash(gpu), 128) / (2 * pair_clocks(gpu, flash(gpu), 64));
    BOOST_TEST((of_64 > 0.55 && of_64 < 1), gpu.name << " " << of_64);
    BOOST_TEST(pair_clocks(gpu, flash(gpu), 512) == 2 * pair_clocks(gpu, flash(gpu), 256));
  }
  AttentionHeads heads = kLlama70bTp1;
  const double own = prefill_attention_time(h100, heads, {{16384, 0}}).seconds;
  heads.library = AttentionLibrary::trtllm;
  BOOST_TEST(prefill_attention_time(h100, heads, {{16384, 0}}).seconds > 1.1 * own);
}

// cuDNN's kernel on Hopper: tiles of 128 query rows, waves over the SMs, the last tiles alone, and no time for HBM as
// long as the tiles take longer. The 4 tiles of a head of 512 tokens visit 1 + 2 + 3 + 4 times 128 keys.
BOOST_AUTO_TEST_CASE(cudnn_loops_over_tiles) {
  const GpuDatasheet h100 = gpu_datasheet("H100-SXM5-80GB");
  AttentionHeads heads{8, 8, 128};
  heads.library = AttentionLibrary::cudnn;
  const PrefillKernel& kernel = prefill_kernel(h100, heads.library);
  const double keys_seconds = 128 * 128 * pair_clocks(h100, kernel, 128) /
                              (h100.kernel.attention_ratio * attention_clock_ratio(h100) * h100.clock_hz());
  const double block_seconds = kernel.block_ratio * h100.kernel.attention_block_us * 1e-6;
  const double fixed_seconds = kernel.fixed_ratio * h100.kernel.attention_fixed_us * 1e-6;
  BOOST_TEST(kernel.persistent);
  BOOST_TEST(kernel.products_ratio * attention_clock_ratio(h100) <= 1.0);  // the tensor peak at the datasheet's clock

  const KernelTime one = prefill_attention_time(h100, heads, {{512, 0}});
  BOOST_TEST(one.ctas == 4u * 8);
  BOOST_TEST(one.seconds == fixed_seconds + 4 * keys_seconds + block_seconds, kExact);

  const KernelTime many = prefill_attention_time(h100, heads, std::vector<AttentionSequence>(16, {512, 0}));
  BOOST_TEST(many.ctas == 16u * 4 * 8);
  BOOST_TEST(many.waves == ceil_div(16u * 4 * 8, h100.sm.count));
  const double work = 16 * 8 * (10 * keys_seconds + 4 * block_seconds) / h100.sm.count;
  const double tail = many.tail_ratio * (4 * keys_seconds + block_seconds);
  BOOST_TEST(many.hbm_seconds < work + tail);
  BOOST_TEST(many.seconds == fixed_seconds + work + tail, kExact);

  // Decode: no time between blocks of one wave and of the next.
  const KernelTime decode = decode_attention_time(h100, heads, one_token_each(std::vector<std::uint64_t>(256, 1024)));
  BOOST_TEST(decode.ctas == 256u * 8);
  BOOST_TEST(decode.starts_seconds_on(h100.sm.count) == 0.0);
  BOOST_TEST(decode.seconds > decode.hbm_seconds);
  heads.library = AttentionLibrary::flash;
  const KernelTime flash = decode_attention_time(h100, heads, one_token_each(std::vector<std::uint64_t>(256, 1024)));
  BOOST_TEST(flash.starts_seconds_on(h100.sm.count) > 0.0);
}

// Other GPUs have no cuDNN kernel of their own.
BOOST_AUTO_TEST_CASE(cudnn_is_flash_attention_elsewhere) {
  AttentionHeads cudnn{32, 8, 128}, flash = cudnn;
  cudnn.library = AttentionLibrary::cudnn;
  for (const char* name : {"A100-SXM4-80GB", "L40S", "B200-SXM-180GB"}) {
    const GpuDatasheet gpu = gpu_datasheet(name);
    BOOST_TEST(prefill_attention_time(gpu, cudnn, {{2048, 0}}).seconds ==
               prefill_attention_time(gpu, flash, {{2048, 0}}).seconds);
    BOOST_TEST(decode_attention_time(gpu, cudnn, {{1, 8191}}).seconds ==
               decode_attention_time(gpu, flash, {{1, 8191}}).seconds);
  }
}

BOOST_AUTO_TEST_CASE(versions_of_flash_attention_reach_published_rates) {
  // 16 sequences of 4096 tokens, 32 heads of 128, as figure 5 of FlashAttention-3: 370 TFLOP/s on H100 without a mask;
  // FlashAttention-1 on A100: 30 to 50 % of 312 TFLOP/s.
  const AttentionHeads heads{32, 32, 128};
  const std::vector<AttentionSequence> batch(16, {4096, 0});
  const auto tflops = [&](const GpuDatasheet& gpu) {
    return 16 * attention_flops(heads, {4096, 0}, false) / prefill_attention_time(gpu, heads, batch, false).seconds /
           1e12;
  };
  const GpuDatasheet h100 = gpu_datasheet("H100-SXM5-80GB"), a100 = gpu_datasheet("A100-SXM4-80GB");
  BOOST_TEST(tflops(with_flash_attention(h100, 2)) == 370, boost::test_tools::tolerance(0.1));
  BOOST_TEST(tflops(with_flash_attention(h100, 3)) == tflops(h100));
  BOOST_TEST(tflops(with_flash_attention(h100, 1)) < tflops(with_flash_attention(h100, 2)));
  const double first = tflops(with_flash_attention(a100, 1));
  BOOST_TEST((first > 0.3 * 312 && first < 0.5 * 312), first);
  BOOST_TEST(tflops(with_flash_attention(a100, 2)) == tflops(a100));
  BOOST_TEST(flash_attention_versions(gpu_datasheet("B200-SXM-180GB")).empty());
}

BOOST_AUTO_TEST_CASE(decode_reads_every_requests_kv_once) {
  for (const char* name : {"A100-SXM4-80GB", "H100-SXM5-80GB", "L40S"}) {
    const GpuDatasheet gpu = gpu_datasheet(name);
    const std::vector<std::uint64_t> context{10000, 20000, 30000, 4000, 16000, 20000, 20000, 40000};
    const KernelTime time = decode_attention_time(gpu, kLlama70bTp1, one_token_each(context));
    const double kv = 160000.0 * 8 * 128 * 2 * 2, query = 8.0 * 64 * 128 * 2 * 2;
    BOOST_TEST(time.bytes == kv + query);
    const double share = decode_kernel(gpu, kLlama70bTp1, 64, 40000).read_ratio;
    const double rate = share * gpu.kernel.decode_attention_ratio * gpu.hbm.gb_per_s * 1e9;
    BOOST_TEST(time.seconds - time.fixed_seconds >= time.bytes / rate);
    BOOST_TEST(time.seconds < 1.2 * (time.fixed_seconds + time.bytes / rate));
    BOOST_TEST(name_of(time.limit) == std::string("hbm"));
  }
}

// A cache that is read again is not read from memory as far as L2 keeps it, and never faster than L2.
BOOST_AUTO_TEST_CASE(a_small_cache_stays_in_l2) {
  for (const char* name : {"H100-SXM5-80GB", "B200-SXM-180GB", "L40S"}) {
    const GpuDatasheet gpu = gpu_datasheet(name);
    const auto decode = [&](double share_of_l2, bool kv_in_l2) {
      const double keys = share_of_l2 * gpu.l2.capacity_mib * kBytesPerMib / (8 * 512);
      return decode_attention_time(gpu, kLlama70bTp1, one_token_each({static_cast<std::uint64_t>(keys)}), true,
                                   kv_in_l2);
    };
    BOOST_TEST_CONTEXT(name) {
      BOOST_TEST(decode(0.3, true).bytes == 0);
      BOOST_TEST(decode(0.3, true).seconds < decode(0.3, false).seconds);
      BOOST_TEST(decode(0.3, true).seconds > decode(0.3, true).l2_bytes / gpu.l2_bytes_per_s());
      BOOST_TEST(decode(1, true).seconds == decode(1, false).seconds);
    }
  }
}

// Rounds of short blocks: HBM delivers the cache, and each round of one block an SM starts again.
BOOST_AUTO_TEST_CASE(starts_of_blocks_add_up) {
  const GpuDatasheet gpu = gpu_datasheet("H100-SXM5-80GB");
  const auto decode = [&](std::size_t batch, std::uint64_t keys) {
    return decode_attention_time(gpu, {8, 8, 128}, one_token_each(std::vector<std::uint64_t>(batch, keys)));
  };
  const DecodeKernel& kernel = decode_kernel(gpu, {8, 8, 128}, 2048, 128);
  const KernelTime many = decode(256, 128), few = decode(16, 2048);  // 2048 and 128 blocks with the same keys
  BOOST_TEST(many.ctas == 2048u);
  BOOST_TEST(few.ctas == 128u);
  BOOST_TEST(many.starts_seconds_on(132) == 2048.0 / 132 * kernel.block_us * 1e-6, kExact);
  BOOST_TEST(few.starts_seconds_on(132) == kernel.block_us * 1e-6, kExact);
  BOOST_TEST(many.starts_seconds_on(66) == 2 * many.starts_seconds_on(132), kExact);
  BOOST_TEST(many.hbm_seconds == few.hbm_seconds, boost::test_tools::tolerance(0.1));  // queries and outputs differ
  const KernelTime half = many.taking(many.seconds / 2);
  BOOST_TEST(half.seconds_on({132}) == many.seconds / 2, kExact);
  const double without = many.seconds_without(KernelLimit::tensor) - many.fixed_seconds;
  BOOST_TEST(without == many.hbm_seconds, boost::test_tools::tolerance(1e-6));
}

// TensorRT-LLM, mayHavePerfGain: XQA needs groups, and a block of 128 keys for each fourth SM.
BOOST_AUTO_TEST_CASE(trtllm_chooses_its_decode_kernel) {
  AttentionHeads grouped{32, 8, 128}, multi{32, 32, 128};
  grouped.library = multi.library = AttentionLibrary::trtllm;
  for (const char* name : {"H100-SXM5-80GB", "L40S"}) {
    const GpuDatasheet gpu = gpu_datasheet(name);
    const auto kernel = [&](const AttentionHeads& heads, std::uint64_t blocks, std::uint64_t longest) {
      return decode_kernel(gpu, heads, blocks, longest).name;
    };
    const std::uint64_t least = ceil_div(gpu.sm.count, 4u);
    BOOST_TEST(kernel(grouped, least, 128) != kernel(grouped, least - 1, 128));
    BOOST_TEST(kernel(grouped, least - 1, 128) == kernel(multi, 4096, 8192));
    BOOST_TEST(kernel(grouped, 1, 128 * least) == kernel(grouped, least, 128));
  }
  const GpuDatasheet b200 = gpu_datasheet("B200-SXM-180GB");
  BOOST_TEST(decode_kernel(b200, multi, 1, 128).name == decode_kernel(b200, grouped, 64, 8192).name);
}

// The last blocks of a grid of a few rounds run alone; a grid that fits on the SMs takes its longest block.
BOOST_AUTO_TEST_CASE(the_last_blocks_run_alone) {
  KernelTime time;
  time.longest_cta_seconds = 3e-6;
  time.tail_ratio = 0.63;
  const auto with = [&](std::uint64_t ctas) {
    time.ctas = ctas;
    time.sm_seconds = 1.5e-6 * static_cast<double>(ctas);  // half of the longest, on average
    return time.cta_seconds_on(100);
  };
  BOOST_TEST(with(50) == 3e-6, kExact);
  BOOST_TEST(with(100) == 3e-6, kExact);
  for (const std::uint64_t ctas : {120, 1000, 12000})
    BOOST_TEST(with(ctas) == std::max(3e-6, 1.5e-8 * static_cast<double>(ctas) + 0.63 * 3e-6), kExact);
}

// Grouped-query attention reads a KV head once for all its query heads.
BOOST_AUTO_TEST_CASE(decode_time_follows_kv_heads_not_query_heads) {
  const GpuDatasheet gpu = gpu_datasheet("H100-SXM5-80GB");
  const std::vector<std::uint64_t> batch(32, 8192);
  const double grouped = decode_attention_time(gpu, {64, 8, 128, DataType::bf16}, one_token_each(batch)).seconds;
  const double multi = decode_attention_time(gpu, {64, 64, 128, DataType::bf16}, one_token_each(batch)).seconds;
  BOOST_TEST(multi / grouped > 7.0);
  BOOST_TEST(multi / grouped < 8.0);
}

BOOST_AUTO_TEST_CASE(narrow_kv_cache_halves_decode_bytes) {
  const GpuDatasheet gpu = gpu_datasheet("H100-SXM5-80GB");
  const std::vector<std::uint64_t> batch(64, 8192);
  const double bf16 = decode_attention_time(gpu, {8, 1, 128, DataType::bf16}, one_token_each(batch)).bytes;
  const double fp8 = decode_attention_time(gpu, {8, 1, 128, DataType::fp8}, one_token_each(batch)).bytes;
  BOOST_TEST(fp8 / bf16 == 0.5, boost::test_tools::tolerance(0.002));
}

// One long context among short ones is one thread block's work: adding short requests beside it is free until HBM
// binds.
BOOST_AUTO_TEST_CASE(a_long_context_binds_a_grid_that_cannot_split_it) {
  const GpuDatasheet gpu = gpu_datasheet("H100-SXM5-80GB");
  const AttentionHeads one{8, 1, 128, DataType::bf16};
  std::vector<std::uint64_t> batch(300, 16);  // more requests than SMs x 2: no splits
  batch[0] = 131072;
  const double mixed = decode_attention_time(gpu, one, one_token_each(batch)).seconds;
  const double alone = decode_attention_time(gpu, one, one_token_each({131072})).seconds;
  BOOST_TEST(mixed > 5 * alone);
}

BOOST_AUTO_TEST_CASE(decode_grows_with_context_and_batch) {
  const GpuDatasheet gpu = gpu_datasheet("L40S");
  double last = 0;
  for (std::uint64_t context = 1; context <= 131072; context += 1 + context / 20) {
    const double now = decode_attention_time(gpu, kLlama70bTp4, one_token_each({context, context})).seconds;
    BOOST_TEST(now >= last);
    last = now;
  }
  BOOST_TEST(decode_attention_time(gpu, kLlama70bTp4, {}).seconds == 0.0);
}

// Windows of 1000 keys: chunks add up, FLOPs and time stop growing with what lies before, and decode reads a window of KV.
BOOST_AUTO_TEST_CASE(a_sliding_window_bounds_work_and_bytes) {
  AttentionHeads windowed = kLlama70bTp4;
  windowed.window = 1000;
  const std::uint64_t prompt = 4096 + 77;
  const double pairs = 1000.0 * 1001 / 2 + (static_cast<double>(prompt) - 1000) * 1000;
  BOOST_TEST(attention_flops(windowed, {prompt, 0}) == 4.0 * 16 * 128 * pairs);
  for (const std::uint64_t chunk : {1, 100, 256, 1000, 5000}) {
    double sum = 0;
    for (std::uint64_t start = 0; start < prompt; start += chunk)
      sum += attention_flops(windowed, {std::min(chunk, prompt - start), start});
    BOOST_TEST(sum == attention_flops(windowed, {prompt, 0}));
  }
  for (const char* name : {"L40S", "H100-SXM5-80GB"}) {
    const GpuDatasheet gpu = gpu_datasheet(name);
    const auto prefill = [&](const AttentionHeads& heads, std::uint64_t start) {
      return prefill_attention_time(gpu, heads, {{1024, start}});
    };
    const auto decode = [&](const AttentionHeads& heads, std::uint64_t context) {
      return decode_attention_time(gpu, heads, one_token_each(std::vector<std::uint64_t>(16, context)));
    };
    BOOST_TEST_CONTEXT(name) {
      BOOST_TEST(prefill(windowed, 2048).seconds == prefill(windowed, 32768).seconds);
      BOOST_TEST(prefill(windowed, 32768).bytes == prefill(windowed, 2048).bytes);
      BOOST_TEST(prefill(windowed, 32768).seconds < prefill(kLlama70bTp4, 32768).seconds / 4);
      BOOST_TEST(decode(windowed, 500).seconds == decode(kLlama70bTp4, 500).seconds);
      BOOST_TEST(decode(windowed, 50000).seconds == decode(kLlama70bTp4, 1000).seconds);
      BOOST_TEST(decode(windowed, 50000).bytes == decode(kLlama70bTp4, 1000).bytes);
      // A window as long as what there is changes nothing.
      windowed.window = 4096;
      BOOST_TEST(prefill(windowed, 3072).seconds == prefill(kLlama70bTp4, 3072).seconds);
      windowed.window = 1000;
    }
  }
}
