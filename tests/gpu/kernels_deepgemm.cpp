#define BOOST_TEST_MODULE kernels_deepgemm
#include <boost/test/unit_test.hpp>

#include <stdexcept>

#include "base/units.h"
#include "gpu/kernels/deepgemm.h"
#include "gpu/kernels/gemm.h"
#include "tests/gpu/kernels_datasheets.h"

using namespace railyard;
using namespace railyard::gpu;
using railyard::test::gpu_datasheet;
namespace tt = boost::test_tools;

namespace {

constexpr std::uint32_t kSms = 132;
const KernelConstants::DeepGemm kLatencies = gpu_datasheet("H800-SXM5-80GB").kernels.deepgemm;

GemmShape shape(std::uint64_t m, std::uint64_t n, std::uint64_t k) {
  GemmShape s{m, n, k, DataType::fp8};
  s.gemm_library = GemmLibrary::deepgemm;
  return s;
}

}  // namespace

// One wave if it is possible, and then as many tiles as the SMs.
BOOST_AUTO_TEST_CASE(the_fewest_waves_then_the_fullest_last_one) {
  const DeepGemmTile narrow = deepgemm_tile(64, 4096, kSms);  // 128 tiles; 16 columns would be two waves
  BOOST_TEST((narrow.m == 64u && narrow.n == 32u && !narrow.cluster));
  const DeepGemmTile few = deepgemm_tile(16, 128, kSms);  // eight tiles at most
  BOOST_TEST((few.m == 64u && few.n == 16u));
  const DeepGemmTile high = deepgemm_tile(512, 7168, kSms);  // 2 x 64 tiles
  BOOST_TEST((high.m == 256u && high.n == 112u));
  const DeepGemmTile equal = deepgemm_tile(4096, 576, kSms);
  BOOST_TEST((equal.m == 128u && equal.n == 144u));
}

BOOST_AUTO_TEST_CASE(clusters_begin_at_512_rows_and_share_the_wider_side) {
  BOOST_TEST(!deepgemm_tile(511, 7168, kSms).cluster);
  const DeepGemmTile inputs = deepgemm_tile(512, 7168, kSms);
  BOOST_TEST((inputs.cluster && inputs.shares_inputs));
  const DeepGemmTile weights = deepgemm_tile(4096, 576, kSms);
  BOOST_TEST((weights.cluster && !weights.shares_inputs));
  BOOST_TEST(!deepgemm_tile(512, 7168, 131).cluster);  // an odd number of SMs
}

BOOST_AUTO_TEST_CASE(a_step_adds_latency_to_the_tensor_time) {
  const double wide = deepgemm_step_clocks(kLatencies, {128, 128, false, false}, 512);
  BOOST_TEST(deepgemm_step_clocks(kLatencies, {128, 128, false, false}, 600) - wide == 88);
  BOOST_TEST(deepgemm_step_clocks(kLatencies, {128, 128, true, false}, 512) > wide);
  // 64 x 16 reads 80 x 128 bytes at 128 bytes per clock; its tensor instructions take 32 clocks.
  const double narrow = deepgemm_step_clocks(kLatencies, {64, 16, false, false}, 32);
  BOOST_TEST(deepgemm_step_clocks(kLatencies, {64, 16, false, false}, 80) == narrow);
  BOOST_TEST(deepgemm_step_clocks(kLatencies, {64, 16, false, false}, 90) == narrow + 10);
  // Two scales: a selection for each of 256 x 112 numbers, 128 per clock. The compiler knows those of 192 columns.
  BOOST_TEST(deepgemm_step_clocks(kLatencies, {256, 112, false, false}, 1000) -
                 deepgemm_step_clocks(kLatencies, {256, 128, false, false}, 1000) ==
             224);
  BOOST_TEST(deepgemm_step_clocks(kLatencies, {128, 192, false, false}, 1000) ==
             deepgemm_step_clocks(kLatencies, {128, 128, false, false}, 1000));
}

// 16 x 128 x 65536 on an H800 takes 60.9 us (alibaba/InferSim bench_data/gemm/h800): eight SMs walk down all of K. A
// library that splits K is several times faster.
BOOST_AUTO_TEST_CASE(an_unsplit_k_is_one_sms_walk) {
  const GpuDatasheet gpu = gpu_datasheet("H800-SXM5-80GB");
  const KernelTime whole = gemm_time(gpu, shape(16, 128, 65536));
  BOOST_TEST((whole.split_k == 1u && whole.ctas == 8u));
  BOOST_TEST(whole.seconds == 60.9e-6, tt::tolerance(0.1));
  BOOST_TEST(whole.seconds > 3 * gemm_time(gpu, {16, 128, 65536, DataType::fp8}).seconds);
}

// On an H20, whose tensor rate is a quarter, steps of 256 x 128 are tensor instructions for 95 % of their time.
BOOST_AUTO_TEST_CASE(a_slow_tensor_core_hides_the_latency) {
  const KernelTime time = gemm_time(gpu_datasheet("H20-SXM-96GB"), shape(8192, 7680, 2560));
  BOOST_TEST((time.tile_m == 256u && time.tile_n == 128u));
  BOOST_TEST(name_of(time.limit) == std::string("tensor"));
  BOOST_TEST(time.seconds == 1180e-6, tt::tolerance(0.05));  // bench_data/gemm/h20
}

BOOST_AUTO_TEST_CASE(a_flush_writes_a_third_of_what_is_displaced) {
  const GpuDatasheet gpu = gpu_datasheet("H800-SXM5-80GB");
  GemmShape s = shape(16, 7168, 2048);
  const double before = gemm_time(gpu, s).bytes;
  s.l2_flushed = true;
  BOOST_TEST(gemm_time(gpu, s).bytes == before * 4 / 3, tt::tolerance(1e-12));
  GemmShape large = shape(16, 65536, 16384);
  const double all = gemm_time(gpu, large).bytes;
  large.l2_flushed = true;
  BOOST_TEST(gemm_time(gpu, large).bytes - all == gpu.l2.capacity_mib * 1048576 / 3, tt::tolerance(1e-9));
}

BOOST_AUTO_TEST_CASE(other_products_are_refused) {
  GemmShape wide = shape(16, 128, 128);
  wide.dtype = DataType::bf16;
  BOOST_CHECK_THROW(gemm_time(gpu_datasheet("H100-SXM5-80GB"), wide), std::domain_error);
  BOOST_CHECK_THROW(gemm_time(gpu_datasheet("B200-SXM-180GB"), shape(16, 128, 128)), std::domain_error);
  GemmShape widened = shape(16, 128, 128);
  widened.weight_bytes = 0.5;
  BOOST_CHECK_THROW(gemm_time(gpu_datasheet("H100-SXM5-80GB"), widened), std::domain_error);
}

// The last tile of a group is half full on average; a group has at least one.
BOOST_AUTO_TEST_CASE(groups_fill_tiles_of_128_rows) {
  BOOST_TEST(deepgemm_row_tiles(16, 8) == 8u);
  BOOST_TEST(deepgemm_row_tiles(128, 8) == 12u);
  BOOST_TEST(deepgemm_row_tiles(1024, 3) == 26u);  // 25.5
  BOOST_TEST(deepgemm_tile(2048, 4096, kSms, true).m == 128u);
  GemmShape experts = shape(128, 4096, 7168);
  experts.groups = 64;
  const GpuDatasheet gpu = gpu_datasheet("H800-SXM5-80GB");
  const KernelTime time = gemm_time(gpu, experts);
  BOOST_TEST(time.ctas == 96u * ceil_div(4096, time.tile_n));
  BOOST_TEST(time.flops == 2.0 * 64 * 128 * 4096 * 7168);
  // Eight experts of 1024 rows: 410.6 us (alibaba/InferSim bench_data/grouped_gemm/prefill/h800), no part of any fit.
  GemmShape few = shape(1024, 4096, 7168);
  few.groups = 8;
  BOOST_TEST(gemm_time(gpu, few).seconds == 410.6e-6, tt::tolerance(0.1));
}
