// Energy of a GPU: the terms of a kernel by hand, and the power over time whose integral is the energy.
#include <deque>
#include <functional>
#include <random>

#include "gpu/datasheet.h"
#include "gpu/energy.h"
#include "gpu/kernels/gemm.h"
#include "gpu/sm_array.h"
#include "tests/support/kernel_of.h"
#include "tests/support/simulation.h"
#include "tests/support/systemc_main.h"

using namespace railyard;
using namespace railyard::test;
namespace tt = boost::test_tools;

namespace {

gpu::GpuDatasheet sheet_with_energy() {
  gpu::GpuDatasheet sheet = hundred_sms();
  sheet.energy.idle_w = 90;
  sheet.energy.sm_w = 0.5;
  sheet.energy.hbm_pj_per_byte = 100;
  sheet.energy.tensor_pj_per_flop[static_cast<std::size_t>(DataType::bf16)] = 0.8;
  sheet.energy.tensor_pj_per_flop[static_cast<std::size_t>(DataType::fp8)] = 0.6;
  return sheet;
}

struct Array : FreshKernel, transport::CalendarClient, gpu::SmClient, gpu::SmListener {
  explicit Array(double clock = 1) {
    sms.set_energy_clock(clock);
    sms.add_listener(*this);
  }
  void at(Time when, std::function<void()> action) {
    actions.push_back(std::move(action));
    calendar.at(when, *this, 0, actions.size() - 1);
  }
  void on_event(std::uint32_t, std::uint64_t number) override { actions[number](); }
  void on_sms(const gpu::SmState& state) override {
    add_up(calendar.now());
    watts = state.watts;
  }
  void on_ctas(const gpu::Stream*, std::uint64_t) override {}
  void add_up(Time now) {
    joules += watts * since(now, told).seconds();
    told = now;
  }
  /// Of all until now.
  gpu::Energy energy(double message_bytes = 0) const {
    const Time now = calendar.now();
    return gpu::energy_of(
        sheet, sms.energy_clock(),
        {now.seconds(), sms.busy_sm_seconds(now), sms.tensor_j(now), sms.kernel_bytes(now) + message_bytes});
  }

  gpu::GpuDatasheet sheet = sheet_with_energy();
  transport::Calendar calendar{"calendar"};
  gpu::SmArray sms{sheet, calendar};
  std::deque<std::function<void()>> actions;
  double watts = sheet.energy.idle_w, joules = 0;
  Time told;
};

}  // namespace

// A kernel of 8 us on 50 of 100 SMs begins at 2 us: idle 10 us x 90 W, SMs 8 us x 50 x 0.5 W x 0.8^2, FLOPs 0.8 x 3 mJ, memory 4 MB.
BOOST_AUTO_TEST_CASE(a_kernel_by_hand) {
  Array s(0.8);
  gpu::KernelTime kernel = kernel_time_of(Time::us(8), 50);
  kernel.bytes = 4e6;
  kernel.tensor_j = 3e-3;
  s.at(Time::us(2), [&] { s.sms.run(gpu::chain_of(kernel), s); });
  sc_core::sc_start();
  const gpu::Energy energy = s.energy();
  BOOST_TEST(energy.idle_j == 900e-6, tt::tolerance(1e-12));
  BOOST_TEST(energy.sms_j == 128e-6, tt::tolerance(1e-12));
  BOOST_TEST(energy.tensor_j == 2.4e-3, tt::tolerance(1e-12));
  BOOST_TEST(energy.hbm_j == 400e-6, tt::tolerance(1e-12));
  BOOST_TEST(energy.total_j() == 3.828e-3, tt::tolerance(1e-12));
}

BOOST_AUTO_TEST_CASE(flops_of_a_product_count_by_type_and_a_type_without_constant_counts_as_bf16) {
  gpu::GpuDatasheet sheet = sheet_with_energy();
  sheet.sm.flop_per_clock.fill(1024);
  sheet.sm.feed_bytes_per_clock = sheet.sm.epilogue_bytes_per_clock = 64;
  sheet.sm.shared_memory_kib = 228;
  sheet.hbm.gemm_ratio = 0.8;
  sheet.l2.capacity_mib = 40;
  const auto joules = [&](DataType type) {
    gpu::GemmShape shape;
    shape.m = 512, shape.n = 1024, shape.k = 2048;
    shape.dtype = type;
    return gpu::gemm_time(sheet, shape).tensor_j;
  };
  const double flops = 2.0 * 512 * 1024 * 2048;
  BOOST_TEST(joules(DataType::bf16) == flops * 0.8e-12, tt::tolerance(1e-12));
  BOOST_TEST(joules(DataType::fp8) == flops * 0.6e-12, tt::tolerance(1e-12));
  BOOST_TEST(joules(DataType::int8) == flops * 0.8e-12, tt::tolerance(1e-12));
}

// Whatever comes when: the integral of the power over time is the energy of what was counted.
BOOST_AUTO_TEST_CASE(power_over_time_adds_up_to_the_energy) {
  std::mt19937_64 random(11);
  const auto up_to = [&](std::uint64_t n) { return random() % n; };
  for (int run = 0; run < 40; ++run) {
    Array s(run % 2 == 0 ? 1 : 0.7);
    for (int i = 0; i < 10; ++i) {
      const Time when = Time::ns(static_cast<double>(up_to(20000)));
      if (up_to(4) == 0) {
        const auto ctas = static_cast<std::uint32_t>(1 + up_to(100));
        const Time holds = Time::ns(static_cast<double>(1 + up_to(9000)));
        s.at(when, [&s, ctas, holds] {
          const gpu::SmArray::Slot slot = s.sms.claim(ctas, {640, 240, 0}, s);
          s.at(s.calendar.now() + holds + Time::us(40), [&s, slot] { s.sms.release(slot); });
        });
        continue;
      }
      const auto chain = std::make_shared<gpu::KernelChain>();
      for (std::uint64_t k = 0; k <= up_to(4); ++k) {
        gpu::KernelTime kernel = kernel_time_of(Time::ns(static_cast<double>(50 + up_to(3000))), 1 + up_to(300));
        kernel.bytes = static_cast<double>(up_to(1000000));
        kernel.hbm_seconds = kernel.bytes * 1e-12;
        kernel.tensor_j = static_cast<double>(up_to(100)) * 1e-6;
        kernel.fixed_seconds = 1e-6;
        kernel.cta.registers_kib = 200;
        kernel.seconds = kernel.seconds_on({100});
        chain->add(kernel);
      }
      s.at(when, [&s, chain] { s.sms.run(chain, s); });
    }
    double rate = 0, message_bytes = 0;
    for (int i = 0; i < 6; ++i) {
      const Time from = Time::us(5 * i);
      const double next = i < 5 ? static_cast<double>(up_to(900)) * 1e9 : 0;
      message_bytes += rate * 5e-6;
      rate = next;
      s.at(from, [&s, next] { s.sms.set_traffic({next / 2, next}); });  // ports carry half
    }
    sc_core::sc_start();
    s.add_up(s.calendar.now());
    BOOST_TEST(s.joules == s.energy(message_bytes).total_j(), tt::tolerance(1e-9));
  }
}
