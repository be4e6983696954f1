// The clock of a whole training step: which kernels follow it, and how a power limit changes it.
#define BOOST_TEST_MODULE kernels_step_clock
#include <boost/test/unit_test.hpp>

#include <cmath>

#include "gpu/kernels/attention.h"
#include "gpu/kernels/gemm.h"
#include "gpu/kernels/memory_bound.h"
#include "gpu/kernels/step_clock.h"
#include "tests/gpu/kernels_datasheets.h"

using namespace railyard;
using namespace railyard::gpu;
using railyard::test::gpu_datasheet;

namespace {

constexpr double kExact = 1e-12;

/// Limited by tensor cores alone: no feed, L2, memory or fixed time counts.
GpuDatasheet only_tensor_cores() {
  GpuDatasheet gpu = gpu_datasheet("H100-SXM5-80GB");
  constexpr double kPlenty = 1e15;
  gpu.sm.feed_bytes_per_clock = gpu.sm.epilogue_bytes_per_clock = kPlenty;
  gpu.l2.bytes_per_sm_clock = kPlenty;
  gpu.hbm.gb_per_s = kPlenty;
  gpu.kernel.gemm_fixed_us = gpu.kernel.gemm_step_clocks = 0;
  gpu.sm.burst_efficiency_ratio = 0.9;
  gpu.sm.sustained_efficiency_ratio = 0.8;
  return gpu;
}

double steady_product(const GpuDatasheet& gpu, double waits = 0) {
  GemmShape shape{16384, 16384, 16384};
  shape.steady = true;
  return gemm_time(at_step_clock(gpu, {waits}), shape).seconds;
}

}  // namespace

BOOST_AUTO_TEST_CASE(without_a_ratio_nothing_changes) {
  GpuDatasheet gpu = gpu_datasheet("H100-SXM5-80GB");
  gpu.sm.step_clock_ratio = 1;
  const GpuDatasheet same = at_step_clock(gpu);
  BOOST_TEST(same.sm.clock_mhz == gpu.sm.clock_mhz);
  BOOST_TEST(same.sm.sustained_efficiency_ratio == gpu.sm.sustained_efficiency_ratio);
  BOOST_TEST(same.sm.low_precision_sustained_ratio == gpu.sm.low_precision_sustained_ratio);
}

BOOST_AUTO_TEST_CASE(a_product_gets_the_lower_of_two_rates) {
  GpuDatasheet gpu = only_tensor_cores();
  gpu.sm.step_clock_ratio = 1;
  const double alone = steady_product(gpu);
  // At 0.95 of the clock, a product without a limit of its own would reach 0.9 x 0.95 = 0.855 of the peak: more than 0.8.
  gpu.sm.step_clock_ratio = 0.95;
  BOOST_TEST(steady_product(gpu) == alone, boost::test_tools::tolerance(kExact));
  gpu.sm.step_clock_ratio = 0.6;
  BOOST_TEST(steady_product(gpu) == alone * 0.8 / (0.9 * 0.6), boost::test_tools::tolerance(kExact));
}

BOOST_AUTO_TEST_CASE(memory_does_not_follow_the_clock) {
  GpuDatasheet gpu = gpu_datasheet("H100-SXM5-80GB");
  const double bytes = 1e10;
  const double before = memory_bound_time(gpu, bytes, bytes).seconds;
  gpu.sm.step_clock_ratio = 0.5;
  BOOST_TEST(memory_bound_time(at_step_clock(gpu), bytes, bytes).seconds == before);
}

BOOST_AUTO_TEST_CASE(the_clock_is_the_root_of_the_power_that_load_draws) {
  GpuDatasheet gpu = gpu_datasheet("H100-SXM5-80GB");
  gpu.sm.step_clock_ratio = 0.8;
  const double at_tdp = at_step_clock(gpu).sm.clock_mhz;
  BOOST_TEST(at_tdp == 0.8 * gpu.sm.clock_mhz, boost::test_tools::tolerance(kExact));
  gpu.sm.power_limit_w =
      (gpu.kernels.step_power.idle_ratio + (1 - gpu.kernels.step_power.idle_ratio) / 4) * gpu.sm.power_w;
  BOOST_TEST(at_step_clock(gpu).sm.clock_mhz == at_tdp / 2, boost::test_tools::tolerance(kExact));
  gpu.sm.power_limit_w = 100 * gpu.sm.power_w;
  BOOST_TEST(at_step_clock(gpu).sm.clock_mhz == gpu.sm.clock_mhz);
}

BOOST_AUTO_TEST_CASE(waits_leave_power_to_kernels) {
  GpuDatasheet gpu = gpu_datasheet("H100-SXM5-80GB");
  gpu.sm.step_clock_ratio = 0.5;
  const double waits = 0.2;
  const double load =
      (1 - waits * gpu.kernels.step_power.waits_ratio) / (1 - waits) - gpu.kernels.step_power.idle_ratio;
  BOOST_TEST(at_step_clock(gpu, {waits}).sm.clock_mhz ==
                 0.5 * gpu.sm.clock_mhz * std::sqrt(load / (1 - gpu.kernels.step_power.idle_ratio)),
             boost::test_tools::tolerance(kExact));
  // Without a step clock below the clock of the datasheet, there is nothing to gain.
  gpu.sm.step_clock_ratio = 1;
  BOOST_TEST(at_step_clock(gpu, {waits}).sm.clock_mhz == gpu.sm.clock_mhz);
}

BOOST_AUTO_TEST_CASE(transfers_beside_products_take_power_from_them) {
  GpuDatasheet gpu = gpu_datasheet("H100-SXM5-80GB");
  const double beside = 0.3;
  for (const double limit : {1.0, 0.7}) {
    gpu.sm.power_limit_w = limit * gpu.sm.power_w;
    const double load = limit - beside * gpu.kernels.step_power.transfers_ratio - gpu.kernels.step_power.idle_ratio;
    BOOST_TEST(
        at_step_clock(gpu, {0, beside}).sm.clock_mhz ==
            gpu.sm.step_clock_ratio * gpu.sm.clock_mhz * std::sqrt(load / (1 - gpu.kernels.step_power.idle_ratio)),
        boost::test_tools::tolerance(kExact));
  }
  const GpuDatasheet a100 = gpu_datasheet("A100-SXM4-80GB");  // no clock of a step is known
  BOOST_TEST(at_step_clock(a100, {0, beside}).sm.clock_mhz == a100.sm.clock_mhz);
}

BOOST_AUTO_TEST_CASE(waits_raise_the_clock_up_to_that_of_bursts) {
  for (const double limit : {1.0, 0.5, kLeastPowerLimit}) {
    GpuDatasheet gpu = gpu_datasheet("H100-SXM5-80GB");
    gpu.sm.power_limit_w = limit * gpu.sm.power_w;
    double before = at_step_clock(gpu).sm.clock_mhz;
    for (double waits = 0.05; waits < 1; waits += 0.05) {
      const double clock = at_step_clock(gpu, {waits}).sm.clock_mhz;
      BOOST_TEST(clock >= before);
      before = clock;
    }
    BOOST_TEST(before <= gpu.sm.burst_efficiency_ratio * gpu.sm.clock_mhz);
    if (limit > gpu.kernels.step_power.waits_ratio)
      BOOST_TEST(before == gpu.sm.burst_efficiency_ratio * gpu.sm.clock_mhz, boost::test_tools::tolerance(kExact));
  }
}

BOOST_AUTO_TEST_CASE(products_follow_the_clock_of_waits) {
  for (const double sustained : {0.8, 0.6}) {  // limited by the step's clock; by what a product alone throttles to
    GpuDatasheet gpu = only_tensor_cores();
    gpu.sm.step_clock_ratio = 0.75;
    gpu.sm.sustained_efficiency_ratio = sustained;
    const double faster = at_step_clock(gpu, {0.2}).sm.clock_mhz / at_step_clock(gpu).sm.clock_mhz;
    BOOST_TEST(faster > 1.05);
    BOOST_TEST(steady_product(gpu) / steady_product(gpu, 0.2) == faster, boost::test_tools::tolerance(kExact));
  }
}
