#define BOOST_TEST_MODULE kernels_memory_bound
#include <boost/test/unit_test.hpp>

#include "gpu/kernels/kernel_spec.h"
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
  // Without the launch, the two times differ by the rates of HBM and L2.
  const double hbm = h100.hbm.stream_ratio * h100.hbm.gb_per_s * 1e9, l2 = h100.l2_bytes_per_s();
  BOOST_TEST(cold.seconds - cold.fixed_seconds == 16e6 / hbm, boost::test_tools::tolerance(1e-9));
  BOOST_TEST(warm.seconds - warm.fixed_seconds > 16e6 / l2);
  BOOST_TEST(cold.seconds - cold.fixed_seconds > 2 * (warm.seconds - warm.fixed_seconds));
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

namespace {

KernelSpec row_kernel(KernelOp op, std::uint64_t tokens, std::uint64_t width, double load_bytes) {
  KernelSpec spec;
  spec.op = op;
  spec.tokens = tokens, spec.width = width;
  spec.dtype = DataType::fp16;
  spec.load_bytes = load_bytes;
  spec.gated = op == KernelOp::activation;
  return spec;
}

}  // namespace

// microsoft/vidur, data/profiling/compute of A40 and H100 (input_layernorm and mlp_act of Llama-2-7b, TP 1). No constant of
// these kernels is fitted to these GPUs.
BOOST_AUTO_TEST_CASE(norms_and_activations_of_gpus_outside_the_fit) {
  const struct {
    const char* gpu;
    KernelOp op;
    std::uint64_t tokens, width;
    double us;
  } measured[] = {{"A40-48GB", KernelOp::norm, 4096, 4096, 167},
                  {"A40-48GB", KernelOp::norm, 1024, 4096, 47},
                  {"A40-48GB", KernelOp::activation, 4096, 11008, 490},
                  {"A40-48GB", KernelOp::activation, 256, 11008, 36},
                  {"H100-SXM5-80GB", KernelOp::norm, 4096, 4096, 65},
                  {"H100-SXM5-80GB", KernelOp::norm, 2048, 4096, 25},
                  {"H100-SXM5-80GB", KernelOp::activation, 4096, 11008, 137},
                  {"H100-SXM5-80GB", KernelOp::activation, 512, 11008, 17}};
  constexpr double kScalarBytes = 2;
  for (const auto& row : measured) {
    const double seconds =
        kernel_time(gpu_datasheet(row.gpu), row_kernel(row.op, row.tokens, row.width, kScalarBytes)).seconds;
    BOOST_TEST_CONTEXT(row.gpu << ", " << name_of(row.op) << ", " << row.tokens << " tokens")
    BOOST_TEST(seconds == row.us * 1e-6, boost::test_tools::tolerance(0.2));
  }
}

// If all blocks fit on the SMs at once, the kernel takes the time of one block. One more block doubles the time.
BOOST_AUTO_TEST_CASE(blocks_run_in_waves) {
  GpuDatasheet a100 = gpu_datasheet("A100-SXM4-80GB");
  a100.hbm.gb_per_s = a100.l2.bytes_per_sm_clock = 1e9;  // only blocks take time
  const auto body = [&](std::uint64_t rows) {
    const KernelTime time = kernel_time(a100, row_kernel(KernelOp::norm, rows, 2048, 2));
    return time.seconds - time.fixed_seconds;
  };
  const std::uint64_t wave = a100.sm.count * 2;  // two blocks of 1024 threads
  BOOST_TEST(body(2 * wave) == 2 * body(wave), boost::test_tools::tolerance(1e-6));
  BOOST_TEST(body(wave + 1) == 2 * body(wave), boost::test_tools::tolerance(1e-6));
  // With free instructions, a block waits 250 ns and two rounds of latency: 1.2 of a read from L2 (0.56 of one from HBM), and
  // 0.4 for the second pass.
  a100.sm.fp32_lanes = 1000000000;
  BOOST_TEST(body(1) == 250e-9 + 2 * (1.2 * 0.56 + 0.4) * a100.hbm.read_latency_ns * 1e-9,
             boost::test_tools::tolerance(1e-6));
}

// Loads of 16 B hide the latency, so a large norm in HBM runs close to the rate of the memory. (On B200 the instructions make the
// norm a third longer.) Loads of 2 B do not hide the latency.
BOOST_AUTO_TEST_CASE(wide_loads_stream) {
  for (const char* name : {"A100-SXM4-80GB", "H100-SXM5-80GB", "B200-SXM-180GB", "L40S"}) BOOST_TEST_CONTEXT(name) {
      const GpuDatasheet gpu = gpu_datasheet(name);
      KernelSpec wide = row_kernel(KernelOp::norm, 65536, 8192, 16),
                 scalar = row_kernel(KernelOp::norm, 65536, 8192, 2);
      wide.cold = scalar.cold = true;
      const double streamed = 65536.0 * 8192 * 4 / (gpu.hbm.stream_ratio * gpu.hbm.gb_per_s * 1e9);
      BOOST_TEST(kernel_time(gpu, wide).seconds >= streamed);
      BOOST_TEST(kernel_time(gpu, wide).seconds < 1.4 * streamed);
      BOOST_TEST(kernel_time(gpu, scalar).seconds > 1.2 * kernel_time(gpu, wide).seconds);
    }
}
