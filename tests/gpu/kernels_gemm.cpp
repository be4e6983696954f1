#define BOOST_TEST_MODULE kernels_gemm
#include <boost/test/unit_test.hpp>

#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "gpu/kernels/kernel_timer.h"
#include "tests/gpu/kernels_datasheets.h"

using namespace railyard;
using namespace railyard::gpu;
using railyard::test::gpu_datasheet;

namespace {

double seconds(const GpuDatasheet& gpu, std::uint64_t m, std::uint64_t n, std::uint64_t k) {
  return gemm_time(gpu, {m, n, k, DataType::bf16, 1}).seconds;
}

double peak_flops(const GpuDatasheet& gpu, DataType type) {
  return gpu.sm.count * gpu.sm.clock_mhz * 1e6 * gpu.sm.flop_per_clock[static_cast<std::size_t>(type)];
}

}  // namespace

// 9 x 12 tiles of 256 x 128 fill an A100 once; 10 x 11 need a second wave for 2 % more work.
BOOST_AUTO_TEST_CASE(one_tile_more_than_the_sms_costs_a_wave) {
  const GpuDatasheet a100 = gpu_datasheet("A100-SXM4-80GB");
  const KernelTime full = gemm_time(a100, {9 * 256, 12 * 128, 8192, DataType::bf16, 1});
  const KernelTime over = gemm_time(a100, {10 * 256, 11 * 128, 8192, DataType::bf16, 1});
  BOOST_TEST(full.ctas == 108u);
  BOOST_TEST(full.waves == 1u);
  BOOST_TEST(full.tail_efficiency == 1.0);
  BOOST_TEST(over.waves > 1u);
  BOOST_TEST(over.flops / full.flops < 1.02);
  BOOST_TEST(over.seconds / full.seconds > 1.3);
}

BOOST_AUTO_TEST_CASE(waves_count_the_devices_own_sms) {
  const GemmShape shape{11 * 128, 12 * 256, 8192, DataType::bf16, 1};
  GpuDatasheet gpu = gpu_datasheet("H100-SXM5-80GB");
  const KernelTime before = gemm_time(gpu, shape);
  gpu.sm.count = 131;  // one SM less: the tile that has no place costs far more than 1/132
  BOOST_TEST(gemm_time(gpu, shape).seconds > 1.2 * before.seconds);
}

// On a GPU where it is infinitely fast, another tile or split of K would be chosen: the time without it is this kernel's.
BOOST_AUTO_TEST_CASE(without_a_resource_the_fastest_kernel_is_another_one) {
  constexpr double kFree = 1e9;
  double most = 0;
  for (const char* name : {"L40S", "A100-SXM4-80GB", "H100-SXM5-80GB"}) {
    GpuDatasheet fast_memory = gpu_datasheet(name), fast_l2 = fast_memory, fast_sms = fast_memory;
    fast_memory.hbm.gb_per_s *= kFree;
    fast_l2.l2.bytes_per_sm_clock *= kFree;
    fast_sms.sm.flop_per_clock.fill(kFree);
    fast_sms.sm.feed_bytes_per_clock = fast_sms.sm.epilogue_bytes_per_clock = kFree;
    fast_sms.kernel.gemm_step_clocks = 0;
    for (const std::uint64_t m : {16, 64, 512, 2048})
      for (const std::uint64_t n : {1024, 4096, 28672}) {
        const GemmShape shape{m, n, 8192, DataType::bf16, 1};
        const KernelTime time = gemm_time(gpu_datasheet(name), shape);
        const auto close = boost::test_tools::tolerance(1e-3);
        BOOST_TEST(time.seconds_without(KernelLimit::hbm) == gemm_time(fast_memory, shape).seconds, close);
        BOOST_TEST(time.seconds_without(KernelLimit::l2) == gemm_time(fast_l2, shape).seconds, close);
        BOOST_TEST(time.seconds_without(KernelLimit::tensor) == gemm_time(fast_sms, shape).seconds, close);
        KernelTime same = time;
        same.chosen_without = {};
        most = std::max(most, same.seconds_without(KernelLimit::hbm) / time.seconds_without(KernelLimit::hbm));
      }
  }
  BOOST_TEST(most > 1.3);  // of the same tile and split
}

// Row-wise scales: tiles of 128 x 128 and no split of K, so that up to a wave of tiles takes the same time (H200,
// validation/measured.csv: 23.3 us with 16 rows and 26.2 with 2048, of 1024 columns and a depth of 8192).
BOOST_AUTO_TEST_CASE(row_wise_scales_have_one_tile) {
  const GpuDatasheet gpu = gpu_datasheet("H200-SXM-141GB");
  const auto time = [&](std::uint64_t m, std::uint64_t n, std::uint64_t k, GemmLibrary library) {
    GemmShape shape{m, n, k, DataType::fp8, 1};
    shape.gemm_library = library;
    shape.weight_copies = 5;
    return gemm_time(gpu, shape);
  };
  for (const std::uint64_t m : {16, 256, 2048, 8192}) {
    const KernelTime rowwise = time(m, 1024, 8192, GemmLibrary::rowwise);
    BOOST_TEST(rowwise.tile_m == 128u);
    BOOST_TEST(rowwise.tile_n == 128u);
    BOOST_TEST(rowwise.split_k == 1u);
    BOOST_TEST(rowwise.seconds >= time(m, 1024, 8192, GemmLibrary::cublas).seconds);
  }
  const double few = time(16, 1024, 8192, GemmLibrary::rowwise).seconds;
  BOOST_TEST(few == time(2048, 1024, 8192, GemmLibrary::rowwise).seconds, boost::test_tools::tolerance(0.2));
  BOOST_TEST(few > 2 * time(16, 1024, 8192, GemmLibrary::cublas).seconds);
  BOOST_CHECK_THROW(gemm_time(gpu,
                              [] {
                                GemmShape shape{16, 16, 16, DataType::bf16, 1};
                                shape.gemm_library = GemmLibrary::rowwise;
                                return shape;
                              }()),
                    std::domain_error);
}

BOOST_AUTO_TEST_CASE(few_rows_take_the_time_of_reading_the_weights) {
  for (const char* name : {"A100-SXM4-80GB", "H100-SXM5-80GB", "L40S", "B200-SXM-180GB"}) {
    const GpuDatasheet gpu = gpu_datasheet(name);
    const double weights = 8192.0 * 28672 * 2 / gpu.gemm_hbm_bytes_per_s();
    for (const std::uint64_t m : {1, 4, 16}) {
      const KernelTime time = gemm_time(gpu, {m, 28672, 8192, DataType::bf16, 1});
      BOOST_TEST_CONTEXT(name << " m=" << m) {
        BOOST_TEST(name_of(time.limit) == std::string("hbm"));
        BOOST_TEST(time.seconds > weights);
        BOOST_TEST(time.seconds < 1.15 * weights + time.fixed_seconds + gpu.kernel.split_k_us * 1e-6);
      }
    }
  }
}

// Weights far larger than L2 stream at 60 to 95 % of the HBM rate while rows are few, whatever the tensor rate per byte: libraries
// swap operands, so that tiles narrow down to eight rows.
BOOST_AUTO_TEST_CASE(a_few_rows_stream_weights_on_every_gpu) {
  for (const std::string& name : scenario::shipped_datasheets("gpus")) {
    const GpuDatasheet gpu = gpu_datasheet(name);
    for (const DataType type : {DataType::fp16, DataType::bf16, DataType::fp8}) {
      if (gpu.sm.flop_per_clock[static_cast<std::size_t>(type)] == 0) continue;
      for (std::uint64_t m = 1; m <= 16; ++m)
        for (const auto& [n, k] : {std::pair{28672, 8192}, {8192, 28672}, {32768, 32768}}) {
          const double weights = static_cast<double>(n) * k * bytes_of(type);
          const double share = weights / gemm_time(gpu, {m, std::uint64_t(n), std::uint64_t(k), type, 1}).seconds /
                               (gpu.hbm.gb_per_s * 1e9);
          BOOST_TEST_CONTEXT(name << " " << m << "x" << n << "x" << k << " " << name_of(type)) {
            BOOST_TEST(share > 0.6);
            BOOST_TEST(share < 0.95);
          }
        }
    }
  }
}

BOOST_AUTO_TEST_CASE(more_work_never_takes_less_time) {
  for (const char* name : {"A100-SXM4-80GB", "H100-SXM5-80GB", "L40S"}) {
    const GpuDatasheet gpu = gpu_datasheet(name);
    double last = 0;
    for (std::uint64_t m = 1; m <= 16384; m = m < 64 ? m + 1 : m * 5 / 4) {
      const double now = seconds(gpu, m, 8192, 7168);
      BOOST_TEST_CONTEXT(name << " m=" << m) BOOST_TEST(now >= last * 0.97);  // blocking of L2 rounds to whole tiles
      last = now;
    }
    BOOST_TEST(seconds(gpu, 4096, 8192, 8192) > 1.7 * seconds(gpu, 4096, 8192, 4096));
    BOOST_TEST(seconds(gpu, 4096, 16384, 4096) > 1.7 * seconds(gpu, 4096, 8192, 4096));
  }
}

BOOST_AUTO_TEST_CASE(no_kernel_beats_the_tensor_peak_or_the_memory) {
  for (const char* name : {"A100-SXM4-80GB", "H100-SXM5-80GB", "L40S", "RTX-4090", "B200-SXM-180GB"}) {
    const GpuDatasheet gpu = gpu_datasheet(name);
    for (const std::uint64_t m : {1, 64, 1024, 16384})
      for (const std::uint64_t n : {256, 4096, 28672})
        for (const std::uint64_t k : {128, 4096, 28672}) {
          const KernelTime time = gemm_time(gpu, {m, n, k, DataType::bf16, 1});
          BOOST_TEST_CONTEXT(name << " " << m << "x" << n << "x" << k) {
            BOOST_TEST(time.flops / time.seconds < peak_flops(gpu, DataType::bf16));
            BOOST_TEST((m * k + k * n + m * n) * 2.0 / time.seconds < gpu.hbm.gb_per_s * 1e9);
            BOOST_TEST(time.tail_efficiency <= 1.0);
            BOOST_TEST(time.sms <= gpu.sm.count);
          }
        }
  }
}

// eta(t) = sustained + (burst - sustained) / (1 + t / throttle), t being the time that tensor cores take: of the whole kernel
// here, in which they alone bind.
BOOST_AUTO_TEST_CASE(power_limit_solves_its_own_equation) {
  GpuDatasheet gpu = gpu_datasheet("H100-SXM5-80GB");
  gpu.sm.feed_bytes_per_clock = gpu.sm.epilogue_bytes_per_clock = 1e6;
  gpu.l2.bytes_per_sm_clock = gpu.hbm.gb_per_s = 1e6;
  gpu.kernel.gemm_fixed_us = 0;
  const GemmShape shape{8192, 8192, 8192, DataType::bf16, 1};
  const double found = gemm_time(gpu, shape).seconds;
  GpuDatasheet fixed = gpu;
  fixed.sm.burst_efficiency_ratio =
      gpu.sm.sustained_efficiency_ratio +
      (gpu.sm.burst_efficiency_ratio - gpu.sm.sustained_efficiency_ratio) / (1 + found / (gpu.sm.throttle_us * 1e-6));
  fixed.sm.throttle_us = 0;
  BOOST_TEST(gemm_time(fixed, shape).seconds == found, boost::test_tools::tolerance(1e-4));
}

// After long load the first kernel is as slow as the last. 8192^3 of an A100 after ten thousand warm-ups: 253.7 TFLOP/s (Azure
// AI-benchmarking-guide 8fd0c6e), 16384^3 in fp8 of an H100: 1377.
BOOST_AUTO_TEST_CASE(steady_load_reaches_the_sustained_rate_at_once) {
  const struct {
    const char* gpu;
    std::uint64_t n;
    DataType type;
    double tflops;
  } rows[] = {{"A100-SXM4-80GB", 8192, DataType::fp16, 253.7}, {"H100-SXM5-80GB", 16384, DataType::fp8, 1377.3}};
  for (const auto& row : rows) {
    GemmShape shape{row.n, row.n, row.n, row.type, 1};
    const double burst = gemm_time(gpu_datasheet(row.gpu), shape).seconds;
    shape.steady = true;
    const KernelTime steady = gemm_time(gpu_datasheet(row.gpu), shape);
    BOOST_TEST(steady.seconds > burst);
    BOOST_TEST(steady.flops / steady.seconds == row.tflops * 1e12, boost::test_tools::tolerance(0.07));
  }
}

// Long kernels sink to the sustained rate. Best shape of an H100: 794 TFLOP/s (stas00/ml-engineering 744d01e).
BOOST_AUTO_TEST_CASE(long_kernels_reach_the_sustained_rate) {
  const GpuDatasheet h100 = gpu_datasheet("H100-SXM5-80GB");
  const KernelTime time = gemm_time(h100, {16384, 16384, 16384, DataType::bf16, 1});
  BOOST_TEST(time.flops / time.seconds == 794e12, boost::test_tools::tolerance(0.07));
  BOOST_TEST(name_of(time.limit) == std::string("tensor"));
}

// Best shape of an H100 in fp8: 1403 TFLOP/s (stas00/ml-engineering 744d01e), further below its peak than bf16.
BOOST_AUTO_TEST_CASE(narrow_types_meet_the_power_limit_earlier) {
  const KernelTime time = gemm_time(gpu_datasheet("H100-SXM5-80GB"), {16384, 16384, 16384, DataType::fp8, 1});
  BOOST_TEST(time.flops / time.seconds == 1403e12, boost::test_tools::tolerance(0.07));
}

// The matrix of sums is read where it is written: with one wave and tensor cores as the limit, each of its bytes costs a
// second pass through the epilogue.
BOOST_AUTO_TEST_CASE(a_product_that_is_added_reads_what_it_writes) {
  const GpuDatasheet gpu = gpu_datasheet("H100-SXM5-80GB");
  GemmShape shape{11 * 256, 12 * 128, 16384, DataType::bf16, 1};
  for (const DataType result : {DataType::bf16, DataType::tf32}) {
    shape.result_dtype = result;
    shape.accumulate = false;
    const KernelTime written = gemm_time(gpu, shape);
    shape.accumulate = true;
    const KernelTime added = gemm_time(gpu, shape);
    BOOST_TEST_REQUIRE((added.waves == 1 && written.waves == 1 && added.tile_m == written.tile_m));
    const double numbers = static_cast<double>(shape.m * shape.n);
    BOOST_TEST(added.bytes - written.bytes == numbers * bytes_of(result), boost::test_tools::tolerance(1e-12));
    const double epilogue_s =
        added.tile_m * added.tile_n * bytes_of(result) / gpu.sm.epilogue_bytes_per_clock / gpu.clock_hz();
    BOOST_TEST(added.longest_cta_seconds - written.longest_cta_seconds == epilogue_s,
               boost::test_tools::tolerance(1e-6));
    BOOST_TEST(added.flops == written.flops);
  }
}

// A tile's operands come from L2 at the SM's own rate: where that is too slow, the tensor cores wait.
BOOST_AUTO_TEST_CASE(operand_feed_binds_when_slow) {
  GpuDatasheet gpu = gpu_datasheet("H100-SXM5-80GB");
  const GemmShape shape{8192, 8192, 8192, DataType::bf16, 1};
  const double before = gemm_time(gpu, shape).seconds;
  gpu.sm.feed_bytes_per_clock /= 4;
  const KernelTime slow = gemm_time(gpu, shape);
  BOOST_TEST(name_of(slow.limit) == std::string("feed"));
  BOOST_TEST(slow.seconds > 2 * before);
}

BOOST_AUTO_TEST_CASE(operands_beyond_l2_are_read_again) {
  GpuDatasheet gpu = gpu_datasheet("A100-SXM4-80GB");
  const GemmShape shape{16384, 16384, 16384, DataType::bf16, 1};
  const double compulsory = 3 * 16384.0 * 16384 * 2;
  BOOST_TEST(gemm_time(gpu, shape).bytes > 1.5 * compulsory);
  gpu.l2.capacity_mib = 4096;  // holds everything
  BOOST_TEST(gemm_time(gpu, shape).bytes == compulsory);
}

BOOST_AUTO_TEST_CASE(split_k_serves_short_and_deep_products) {
  const GpuDatasheet h100 = gpu_datasheet("H100-SXM5-80GB");
  BOOST_TEST(gemm_time(h100, {64, 1024, 65536, DataType::bf16, 1}).split_k > 1u);
  BOOST_TEST(gemm_time(h100, {8192, 8192, 8192, DataType::bf16, 1}).split_k == 1u);
}

BOOST_AUTO_TEST_CASE(fp8_halves_bytes_and_doubles_rate) {
  const GpuDatasheet h100 = gpu_datasheet("H100-SXM5-80GB");
  const KernelTime narrow = gemm_time(h100, {1, 28672, 8192, DataType::fp8, 1});
  const KernelTime wide = gemm_time(h100, {1, 28672, 8192, DataType::bf16, 1});
  BOOST_TEST(narrow.bytes == wide.bytes / 2, boost::test_tools::tolerance(0.001));
  const double ratio = seconds(h100, 8192, 8192, 8192) / gemm_time(h100, {8192, 8192, 8192, DataType::fp8, 1}).seconds;
  BOOST_TEST(ratio > 1.5);
  BOOST_TEST(ratio < 2.0);
}

BOOST_AUTO_TEST_CASE(a_missing_tensor_rate_is_refused) {
  const GpuDatasheet a100 = gpu_datasheet("A100-SXM4-80GB");
  BOOST_CHECK_THROW(gemm_time(a100, {16, 16, 16, DataType::fp8, 1}), std::domain_error);
}

// Eight experts of 64 rows read eight sets of weights but compute what one product of 512 rows does.
BOOST_AUTO_TEST_CASE(groups_multiply_weights_and_tiles) {
  const GpuDatasheet h100 = gpu_datasheet("H100-SXM5-80GB");
  const KernelTime grouped = gemm_time(h100, {64, 4096, 4096, DataType::bf16, 8});
  const KernelTime one = gemm_time(h100, {512, 4096, 4096, DataType::bf16, 1});
  BOOST_TEST(grouped.flops == one.flops);
  BOOST_TEST(grouped.bytes > 8 * 4096.0 * 4096 * 2);
  BOOST_TEST(grouped.seconds > one.seconds);
  const KernelTime single = gemm_time(h100, {64, 4096, 4096, DataType::bf16, 1});
  BOOST_TEST(grouped.seconds < 8 * single.seconds);
}

BOOST_AUTO_TEST_CASE(nothing_to_do_takes_no_time) {
  BOOST_TEST(gemm_time(gpu_datasheet("L40S"), {0, 4096, 4096, DataType::bf16, 1}).seconds == 0.0);
}

BOOST_AUTO_TEST_CASE(the_timer_remembers_what_the_formula_says) {
  const GpuDatasheet l40s = gpu_datasheet("L40S");
  KernelTimer timer(l40s);
  const GemmShape shape{256, 4096, 8192, DataType::bf16, 1}, turned{256, 8192, 4096, DataType::bf16, 1};
  BOOST_TEST(timer.gemm(shape).seconds == gemm_time(l40s, shape).seconds);
  BOOST_TEST(timer.gemm(turned).seconds == gemm_time(l40s, turned).seconds);
  BOOST_TEST(timer.gemm(shape).seconds == gemm_time(l40s, shape).seconds);
  BOOST_TEST(timer.remembered() == 2u);
}

// Weights of 4 bits under bf16: a few rows wait for the weights alone, which are a quarter of the bytes; many rows wait for the
// tensor cores, and for the widening besides.
BOOST_AUTO_TEST_CASE(narrow_weights_are_read_as_they_are) {
  constexpr double kInt4Bytes = (4 + 20.0 / 128) / 8;
  for (const char* name : {"A100-SXM4-80GB", "H100-SXM5-80GB", "L40S"}) {
    const GpuDatasheet gpu = gpu_datasheet(name);
    BOOST_TEST_CONTEXT(name) {
      double last = 0;
      for (const std::uint64_t m : {1, 4, 16, 64, 256, 1024, 4096}) {
        GemmShape wide{m, 16384, 8192}, narrow = wide;
        narrow.weight_bytes = kInt4Bytes;
        const KernelTime bf16 = gemm_time(gpu, wide), int4 = gemm_time(gpu, narrow);
        BOOST_TEST_CONTEXT(m << " rows") {
          BOOST_TEST(int4.flops == bf16.flops);
          if (m <= 256)
            BOOST_TEST(int4.bytes < bf16.bytes);  // of more rows, activations are read again for smaller tiles
          BOOST_TEST(int4.seconds >= last);
          BOOST_TEST(int4.bytes > 16384.0 * 8192 * kInt4Bytes);
          if (m == 1) BOOST_TEST(int4.bytes < bf16.bytes / 3);
          if (m <= 4) BOOST_TEST(bf16.seconds / int4.seconds > 2);
          if (m <= 4) BOOST_TEST(bf16.seconds / int4.seconds < 3.9);
          if (m >= 1024) BOOST_TEST(int4.seconds > bf16.seconds);
          if (m >= 1024) BOOST_TEST(int4.seconds < 1.6 * bf16.seconds);
        }
        last = int4.seconds;
      }
      // Weights as wide as the type: nothing to widen.
      GemmShape same{64, 4096, 4096};
      const double seconds = gemm_time(gpu, same).seconds;
      same.weight_bytes = 2;
      BOOST_TEST(gemm_time(gpu, same).seconds == seconds);
    }
  }
}

namespace {

/// Both products of experts of one token, in bf16.
double experts_us(const GpuDatasheet& gpu, std::uint32_t experts, std::uint64_t hidden, std::uint64_t width) {
  const auto product = [&](std::uint64_t n, std::uint64_t k) {
    return gemm_time(gpu, GemmShape{1, n, k, DataType::bf16, experts}).seconds;
  };
  return 1e6 * (product(2 * width, hidden) + product(hidden, width));
}

}  // namespace

BOOST_AUTO_TEST_CASE(fused_experts_of_one_token_are_as_measured) {
  // On an H200 with vLLM's default tiles (validation/measured.csv); no constant was fitted to these rows.
  struct Row {
    std::uint32_t experts;
    std::uint64_t n, k;
    double us;
  };
  const GpuDatasheet gpu = gpu_datasheet("H200-SXM-141GB");
  const std::vector<Row> rows{{2, 28672, 4096, 156.4}, {2, 4096, 14336, 98.4}, {2, 7168, 4096, 38.6},
                              {2, 4096, 3584, 27.7},   {8, 1536, 2048, 19.6},  {8, 2048, 768, 11.0},
                              {4, 5760, 2880, 37.3},   {4, 2880, 2880, 28.4}};
  double errors = 0;
  for (const Row& row : rows)
    errors += std::abs(
        std::log(1e6 * gemm_time(gpu, GemmShape{1, row.n, row.k, DataType::bf16, row.experts}).seconds / row.us));
  BOOST_TEST(errors / static_cast<double>(rows.size()) < 0.12);
}

BOOST_AUTO_TEST_CASE(tensor_parallelism_does_not_shorten_the_walk_of_an_expert) {
  for (const char* name : {"A100-SXM4-80GB", "H100-SXM5-80GB", "L40S", "B200-SXM-180GB"}) {
    const GpuDatasheet gpu = gpu_datasheet(name);
    double before = std::numeric_limits<double>::infinity();
    for (std::uint64_t width = 2048; width >= 32; width /= 2) {
      const double us = experts_us(gpu, 8, 7168, width);
      BOOST_TEST(us <= before, name << ", width " << width);
      BOOST_TEST(us > 7168 / 64 * 0.45, name << ", width " << width);  // 112 steps of the first product
      before = us;
    }
  }
}
