#define BOOST_TEST_MODULE kernels_memory_bound
#include <boost/test/unit_test.hpp>

#include "gpu/kernels/memory_bound.h"
#include "tests/gpu/kernels_datasheets.h"

using namespace railyard;
using namespace railyard::gpu;
using railyard::test::gpu_datasheet;

// Back-to-back copies of an A100-SXM4-80GB inside a CUDA graph (te42kyfo/gpu-benches 1c36d50, gpu-small-kernels):
// bytes moved and GB/s reached, from launch-bound through L2 (16.7 MB) to HBM (267 MB).
BOOST_AUTO_TEST_CASE(small_kernels_of_an_a100) {
  const GpuDatasheet a100 = gpu_datasheet("A100-SXM4-80GB");
  const struct {
    double bytes, gb_per_s;
  } measured[] = {{65536, 49},      {261600, 186},    {1045120, 666},   {4176032, 1634},
                  {16687248, 2946}, {66682352, 1615}, {266463664, 1715}};
  for (const auto& row : measured) {
    const double seconds = memory_bound_time(a100, row.bytes).seconds;
    BOOST_TEST_CONTEXT(row.bytes)
    BOOST_TEST(row.bytes / seconds == row.gb_per_s * 1e9, boost::test_tools::tolerance(0.25));
  }
}

// gpu-stream of the same collection: triads of doubles with few threads on an A100-SXM4-80GB and an H100-PCIe-80GB, two loads
// of 8 B and a store in flight in each thread. By Little's law the rate grows with the threads, up to the memory's.
BOOST_AUTO_TEST_CASE(few_threads_do_not_fill_the_memory) {
  const struct {
    const char* gpu;
    double threads, gb_per_s;
  } measured[] = {{"A100-SXM4-80GB", 3456, 221}, {"A100-SXM4-80GB", 13824, 799}, {"A100-SXM4-80GB", 110592, 1759},
                  {"H100-PCIe-80GB", 3648, 254}, {"H100-PCIe-80GB", 14592, 821}, {"H100-PCIe-80GB", 116736, 1832}};
  constexpr double kTriadBytes = 24, kBytes = 1e9;
  for (const auto& row : measured) {
    const double seconds = memory_bound_time(gpu_datasheet(row.gpu), 0, kBytes, row.threads * kTriadBytes).seconds;
    BOOST_TEST_CONTEXT(row.gpu << ", " << row.threads << " threads")
    BOOST_TEST(kBytes / seconds == row.gb_per_s * 1e9, boost::test_tools::tolerance(0.2));
  }
}

BOOST_AUTO_TEST_CASE(cold_bytes_go_to_hbm) {
  const GpuDatasheet h100 = gpu_datasheet("H100-SXM5-80GB");
  const KernelTime warm = memory_bound_time(h100, 16e6), cold = memory_bound_time(h100, 0, 16e6);
  BOOST_TEST(warm.bytes == 0.0);
  BOOST_TEST(cold.bytes == 16e6);
  BOOST_TEST(cold.seconds > 2 * warm.seconds);
}

BOOST_AUTO_TEST_CASE(large_copies_stream_and_small_ones_launch) {
  const GpuDatasheet h100 = gpu_datasheet("H100-SXM5-80GB");
  const KernelTime large = memory_bound_time(h100, 1e9), small = memory_bound_time(h100, 1000);
  BOOST_TEST(1e9 / large.seconds == h100.hbm.stream_ratio * h100.hbm.gb_per_s * 1e9,
             boost::test_tools::tolerance(0.01));
  BOOST_TEST(name_of(large.limit) == std::string("hbm"));
  BOOST_TEST(name_of(small.limit) == std::string("launch"));
  double last = 0;
  for (double bytes = 1e3; bytes < 1e9; bytes *= 1.3) {
    const double now = memory_bound_time(h100, bytes).seconds;
    BOOST_TEST(now > last);
    last = now;
  }
}
