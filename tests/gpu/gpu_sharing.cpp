// Kernels and claims that share one GPU: who gets which SMs when, and what everybody takes then, in closed form.
#include <array>
#include <random>

#include "gpu/datasheet.h"
#include "gpu/sm_array.h"
#include "tests/support/kernel_of.h"
#include "tests/support/simulation.h"
#include "tests/support/systemc_main.h"

using namespace railyard;
using namespace railyard::test;
using gpu::KernelTime;
using gpu::SmArray;

namespace {

/// Equal thread blocks, one an SM, that fill it.
KernelTime waves_of(Time wave, std::uint64_t ctas) {
  KernelTime kernel = kernel_time_of(wave, ctas);
  kernel.cta.registers_kib = 256;
  kernel.seconds = kernel.seconds_on({100});
  return kernel;
}

/// Limited by HBM alone, small blocks on all SMs.
KernelTime stream_of(Time time, double bytes) {
  KernelTime kernel;
  kernel.ctas = 100;
  kernel.bytes = bytes;
  kernel.hbm_seconds = kernel.seconds = time.seconds();
  kernel.limit = gpu::KernelLimit::hbm;
  kernel.cta.registers_kib = 8;
  return kernel;
}

constexpr gpu::CtaFootprint kWholeSm{640, 240, 0}, kSmall{128, 16, 0};

struct Array : FreshKernel, transport::CalendarClient {
  Array() { streams[1].set_comm_priority(gpu::CommPriority::normal); }

  struct Client : gpu::SmClient {
    explicit Client(Array& owner) : array(owner) {}
    void on_kernel_done() override { done = array.calendar.now(); }
    void on_claim_resident() override {
      told = true;
      see();
    }
    void see() {
      resident = array.calendar.now();
      if (holds != Time::max()) array.at(resident + holds, [this] { array.sms.release(slot); });
    }
    Array& array;
    Time done = Time::max(), resident = Time::max(), holds = Time::max();
    bool told = false;
    SmArray::Slot slot = 0;
  };

  void at(Time when, std::function<void()> action) {
    actions.push_back(std::move(action));
    calendar.at(when, *this, 0, actions.size() - 1);
  }
  Client& kernels(Time when, std::vector<KernelTime> chain) {
    const auto made = std::make_shared<gpu::KernelChain>();
    for (const KernelTime& kernel : chain) made->add(kernel), bytes += kernel.bytes;
    Client& client = clients.emplace_back(*this);
    at(when, [this, made, &client] { sms.run(made, client); });
    return client;
  }
  Client& claim(Time when, std::uint32_t ctas, const gpu::CtaFootprint& footprint, Time holds,
                gpu::CommPriority priority = gpu::CommPriority::high) {
    Client& client = clients.emplace_back(*this);
    client.holds = holds;
    at(when, [this, ctas, footprint, priority, &client] {
      client.slot = sms.claim(ctas, footprint, client, &streams[static_cast<std::size_t>(priority)]);
      if (sms.resident(client.slot)) client.see();
    });
    return client;
  }
  void run() {
    sc_core::sc_start();
    BOOST_TEST(sms.active() == 0u);
    BOOST_TEST(sms.kernel_bytes(calendar.now()) == bytes, boost::test_tools::tolerance(1e-9));
  }
  void on_event(std::uint32_t, std::uint64_t number) override { actions[number](); }

  gpu::GpuDatasheet sheet = hundred_sms();
  transport::Calendar calendar{"calendar"};
  SmArray sms{sheet, calendar};
  std::array<gpu::Stream, 2> streams;  ///< by priority of their claims
  std::deque<Client> clients;
  std::deque<std::function<void()>> actions;
  double bytes = 0;
};

/// Sums of parts are rounded part by part.
void check_time(Time seen, Time expected) {
  BOOST_TEST(std::abs(static_cast<double>(seen.fs()) - static_cast<double>(expected.fs())) <= 4.0,
             seen.fs() << " fs, not " << expected.fs());
}

}  // namespace

BOOST_AUTO_TEST_CASE(alone_a_kernel_takes_its_time_in_one_event) {
  Array s;
  auto& eight = s.kernels(Time::us(1), {waves_of(Time::us(1), 800)});
  s.run();
  check_time(eight.done, Time::us(9));
  BOOST_TEST(s.calendar.events() == 2u);  // the test's own, and the end
  BOOST_TEST(s.sms.busy_sm_seconds(s.calendar.now()) == 800e-6, boost::test_tools::tolerance(1e-9));
}

BOOST_AUTO_TEST_CASE(a_chain_alone_is_one_event_too) {
  Array s;
  auto& chain = s.kernels(Time(), std::vector<KernelTime>(50, waves_of(Time::us(2), 50)));
  s.run();
  check_time(chain.done, Time::us(100));
  BOOST_TEST(s.calendar.events() == 2u);
  BOOST_TEST(s.sms.busy_sm_seconds(s.calendar.now()) == 50 * 50 * 2e-6, boost::test_tools::tolerance(1e-9));
}

// Whatever holds SMs when it is foreseen: bit by bit the sums of the run, and its time.
BOOST_AUTO_TEST_CASE(a_chain_alone_adds_what_was_foreseen) {
  Array s;
  std::vector<KernelTime> kernels{waves_of(Time::ns(700), 130), stream_of(Time::us(3), 1e6), waves_of(Time::us(1), 77)};
  kernels[1].fixed_seconds = 1e-6 / 3;
  kernels[1].seconds = kernels[1].seconds_on({100});
  const auto chain = std::make_shared<gpu::KernelChain>();
  for (const KernelTime& kernel : kernels) chain->add(kernel);
  gpu::SmLog log;
  Time took;
  gpu::SmTotals before, foreseen;
  s.claim(Time(), 60, kWholeSm, Time::us(2));
  s.at(Time::us(1), [&] {
    s.sms.set_speed(0.7);
    BOOST_TEST(s.sms.foresee(chain, log, took));
  });
  s.at(Time::us(4), [&] {
    before = s.sms.totals();
    s.sms.add(log);
    foreseen = s.sms.totals();
    s.sms.set_totals(before);
  });
  auto& run = s.kernels(Time::us(4), kernels);
  s.run();
  BOOST_TEST((run.done == Time::us(4) + took));
  BOOST_TEST((s.sms.totals() == foreseen));
  BOOST_TEST(!(s.sms.totals() == before));
}

// 8 waves on 100 SMs; a claim of 20 comes in the third and is resident when that ends: 500 blocks are left for 80 SMs,
// 5/8 of the work at the pace of 10 waves for all of it.
BOOST_AUTO_TEST_CASE(a_claim_gets_its_sms_at_the_end_of_a_wave) {
  Array s;
  auto& kernel = s.kernels(Time(), {waves_of(Time::us(1), 800)});
  auto& claim = s.claim(Time::ns(2500), 20, kWholeSm, Time::us(100));
  s.run();
  check_time(claim.resident, Time::us(3));
  BOOST_TEST(claim.told);
  check_time(kernel.done, Time::ns(3000 + 6250));
  BOOST_TEST(s.sms.claim_wait_seconds() == 0.5e-6, boost::test_tools::tolerance(1e-6));
  BOOST_TEST(s.sms.kernel_seconds() == 9.25e-6, boost::test_tools::tolerance(1e-6));
  BOOST_TEST(s.sms.kernel_seconds_alone() == 8e-6, boost::test_tools::tolerance(1e-6));
  BOOST_TEST(s.sms.busy_sm_seconds(s.calendar.now()) == 100 * 3e-6 + 80 * 6.25e-6 + 20 * 100e-6,
             boost::test_tools::tolerance(1e-6));
}

// Behind the same eight waves, the claim is resident at 8 us. The next kernel of the chain has 80 SMs: 5 waves.
BOOST_AUTO_TEST_CASE(a_claim_of_normal_priority_waits_for_the_end_of_the_kernel) {
  Array s;
  auto& chain = s.kernels(Time(), {waves_of(Time::us(1), 800), waves_of(Time::us(1), 400)});
  auto& claim = s.claim(Time::ns(2500), 20, kWholeSm, Time::us(100), gpu::CommPriority::normal);
  s.run();
  check_time(claim.resident, Time::us(8));
  check_time(chain.done, Time::us(8 + 5));
  BOOST_TEST(s.sms.claim_wait_seconds() == 5.5e-6, boost::test_tools::tolerance(1e-6));
}

// A kernel has 80 SMs for 5 us, half of its ten waves there, and then all SMs: 9 us.
BOOST_AUTO_TEST_CASE(a_claim_comes_before_kernels_of_the_same_instant) {
  for (const auto priority : {gpu::CommPriority::high, gpu::CommPriority::normal}) {
    Array s;
    auto& chain = s.kernels(Time(), {waves_of(Time::us(1), 800), waves_of(Time::us(1), 800)});
    auto& first = s.claim(Time(), 20, kWholeSm, Time::us(5), priority);
    auto& second = s.claim(Time::us(9), 20, kWholeSm, Time::us(5), priority);
    s.run();
    check_time(first.resident, Time());
    check_time(second.resident, Time::us(9));
    check_time(chain.done, Time::us(18));
  }
}

// Both hold half of the SMs from 1 us on. B has 8 waves, A then 6/14 of 7/8 on all SMs. The claim came after both.
BOOST_AUTO_TEST_CASE(a_claim_of_normal_priority_is_behind_kernels_of_all_streams) {
  Array s;
  auto& a = s.kernels(Time(), {waves_of(Time::us(1), 800)});
  auto& b = s.kernels(Time::ns(500), {waves_of(Time::us(1), 400)});
  auto& claim = s.claim(Time::ns(700), 20, kWholeSm, Time::us(1), gpu::CommPriority::normal);
  s.run();
  check_time(b.done, Time::us(1 + 8));
  check_time(a.done, Time::us(1 + 8 + 3));
  check_time(claim.resident, a.done);
}

// The same, but the claim came before B. When A ends at 15 us, the half that A held is free.
BOOST_AUTO_TEST_CASE(later_kernels_are_in_no_claims_way) {
  Array s;
  auto& a = s.kernels(Time(), {waves_of(Time::us(1), 800)});
  auto& claim = s.claim(Time::ns(500), 50, kWholeSm, Time::us(1), gpu::CommPriority::normal);
  s.kernels(Time::ns(700), {waves_of(Time::us(1), 4000)});
  s.run();
  check_time(a.done, Time::us(1 + 14));
  check_time(claim.resident, a.done);
}

// The claim of high priority takes 40 SMs at 3 us and gives them back at 4 us: 500 blocks on 60 SMs for 1 us, then on
// all SMs. The claim of normal priority came first and waits for the end.
BOOST_AUTO_TEST_CASE(high_priority_overtakes_normal_priority) {
  Array s;
  auto& kernel = s.kernels(Time(), {waves_of(Time::us(1), 800)});
  auto& normal = s.claim(Time::ns(2200), 20, kWholeSm, Time::us(1), gpu::CommPriority::normal);
  auto& high = s.claim(Time::ns(2500), 40, kWholeSm, Time::us(1));
  s.run();
  check_time(high.resident, Time::us(3));
  check_time(normal.resident, kernel.done);
  BOOST_TEST((kernel.done > Time::us(8)));
}

// All blocks run already, so none is ahead of the claim: what the kernel leaves free is free, and the rest is free at the
// end of its only wave.
BOOST_AUTO_TEST_CASE(a_kernel_whose_blocks_all_run_is_in_no_claims_way) {
  for (const auto priority : {gpu::CommPriority::high, gpu::CommPriority::normal}) {
    Array s;
    s.kernels(Time(), {waves_of(Time::us(9), 60)});
    auto& fits = s.claim(Time::us(1), 40, kWholeSm, Time::us(1), priority);
    auto& waits = s.claim(Time::us(3), 41, kWholeSm, Time::us(1), priority);
    s.run();
    check_time(fits.resident, Time::us(1));
    check_time(waits.resident, Time::us(9));
  }
}

BOOST_AUTO_TEST_CASE(what_a_claim_gives_back_is_used_at_once) {
  Array s;
  auto& claim = s.claim(Time(), 50, kWholeSm, Time::us(4));
  auto& kernel =
      s.kernels(Time(), {waves_of(Time::us(1), 800)});  // 16 waves on 50 SMs: a quarter in 4 us, then 8 x 3/4
  s.run();
  BOOST_TEST(!claim.told);
  check_time(kernel.done, Time::us(10));
}

BOOST_AUTO_TEST_CASE(a_persistent_kernel_gives_nothing_before_it_ends) {
  Array s;
  KernelTime persistent = waves_of(Time::us(1), 800);
  persistent.persistent = true;
  auto& kernel = s.kernels(Time(), {persistent, waves_of(Time::us(1), 400)});
  auto& claim = s.claim(Time::ns(2500), 20, kWholeSm, Time::us(100));
  s.run();
  check_time(claim.resident, Time::us(8));  // between the two kernels of the chain
  check_time(kernel.done, Time::us(8 + 5));
}

BOOST_AUTO_TEST_CASE(what_fits_beside_does_not_wait) {
  Array s;
  KernelTime kernel = waves_of(Time::us(1), 800);
  kernel.cta.registers_kib = 200;
  auto& runs = s.kernels(Time(), {kernel});
  auto& claim = s.claim(Time::ns(2500), 20, kSmall, Time::us(1));
  s.run();
  BOOST_TEST(!claim.told);
  check_time(claim.resident, Time::ns(2500));
  check_time(runs.done, Time::us(8));
}

// B comes half a wave into A; at the end of that wave each has 50 SMs. A has 700 blocks left, 14 waves; B needs 400, 8
// waves; when B is done A has 6/14 of its 7/8 left, on all SMs again.
BOOST_AUTO_TEST_CASE(two_streams_share_fairly) {
  Array s;
  auto& a = s.kernels(Time(), {waves_of(Time::us(1), 800)});
  auto& b = s.kernels(Time::ns(500), {waves_of(Time::us(1), 400)});
  s.run();
  check_time(b.done, Time::us(1 + 8));
  check_time(a.done, Time::us(1 + 8 + 3));
}

BOOST_AUTO_TEST_CASE(a_small_kernel_takes_no_more_than_it_wants) {
  Array s;
  auto& big = s.kernels(Time(), {waves_of(Time::us(1), 1800)});
  auto& small = s.kernels(Time(), {waves_of(Time::us(9), 10)});
  s.run();
  check_time(small.done, Time::us(9));
  // 20 waves on 90 SMs; 9 of 20 done in 9 us, the rest at 18 waves.
  check_time(big.done, Time::ns(9000 + 9900));
}

BOOST_AUTO_TEST_CASE(streaming_kernels_share_hbm_and_fit_beside_tensor_work) {
  Array s;
  auto& a = s.kernels(Time(), {stream_of(Time::us(10), 1e7)});
  auto& b = s.kernels(Time(), {stream_of(Time::us(5), 5e6)});
  s.run();
  check_time(b.done, Time::us(10));
  check_time(a.done, Time::us(15));

  Array t;
  KernelTime tensor = waves_of(Time::us(1), 800);
  tensor.cta.registers_kib = 200;
  auto& product = t.kernels(Time(), {tensor});
  auto& stream = t.kernels(Time::ns(300), {stream_of(Time::us(5), 5e6)});
  t.run();
  check_time(product.done, Time::us(8));
  check_time(stream.done, Time::ns(5300));
}

BOOST_AUTO_TEST_CASE(messages_leave_the_rest_of_hbm_to_kernels) {
  Array s;
  auto& stream = s.kernels(Time(), {stream_of(Time::us(10), 1e7)});
  s.at(Time::us(2), [&] { s.sms.set_traffic(500e9); });
  s.at(Time::us(6), [&] { s.sms.set_traffic(0); });
  s.run();
  check_time(stream.done, Time::us(12));

  Array t;
  auto& product = t.kernels(Time(), {waves_of(Time::us(1), 800)});
  t.at(Time::us(2), [&] { t.sms.set_traffic(500e9); });
  t.run();
  check_time(product.done, Time::us(8));
}

BOOST_AUTO_TEST_CASE(messages_leave_half_of_hbm_to_kernels) {
  // Messages of 1e7 bytes, at rates from a tenth to ten times the rate of HBM: they delay a kernel by their own time at the
  // most, and by less the shorter they are.
  Time before = Time::max();
  for (const double rate : {0.5, 1.0, 2.0, 10.0}) {
    Array s;
    auto& stream = s.kernels(Time(), {stream_of(Time::us(40), 4e7)});
    s.at(Time::us(2), [&] { s.sms.set_traffic(rate * 1e12); });
    s.at(Time::us(2) + Time::us(static_cast<std::uint64_t>(10 / rate)), [&] { s.sms.set_traffic(0); });
    s.run();
    check_time(stream.done, Time::ns(static_cast<std::uint64_t>(40000 + 5000 / rate)));
    BOOST_TEST((stream.done < before));
    before = stream.done;
  }
}

BOOST_AUTO_TEST_CASE(claims_are_served_in_turn_and_kernels_wait_for_them) {
  Array s;
  auto& first = s.claim(Time(), 60, kWholeSm, Time::us(5));
  auto& second = s.claim(Time::us(1), 60, kWholeSm, Time::us(5));
  auto& third = s.claim(Time::us(2), 30, kWholeSm, Time::us(1));
  auto& kernel = s.kernels(Time::us(3), {waves_of(Time::us(1), 40)});
  s.run();
  check_time(first.resident, Time());
  check_time(second.resident, Time::us(5));
  check_time(third.resident, Time::us(5));
  // 10 SMs until 6 us, then 40.
  check_time(kernel.done, Time::ns(6750));
}

BOOST_AUTO_TEST_CASE(a_kernel_pauses_when_claims_take_everything) {
  Array s;
  auto& kernel = s.kernels(Time(), {waves_of(Time::us(1), 800)});
  auto& all = s.claim(Time::ns(500), 100, kWholeSm, Time::us(10));
  s.run();
  check_time(all.resident, Time::us(1));
  check_time(kernel.done, Time::us(18));
}

BOOST_AUTO_TEST_CASE(the_order_of_what_begins_at_one_instant_does_not_matter) {
  for (const auto priority : {gpu::CommPriority::high, gpu::CommPriority::normal}) {
    std::vector<Time> ends[2];
    for (const int order : {0, 1}) {
      Array s;
      std::vector<Array::Client*> clients(3);
      const auto add = [&](int which) {
        if (which == 0) clients[0] = &s.kernels(Time::us(1), {waves_of(Time::us(1), 730)});
        if (which == 1) clients[1] = &s.kernels(Time::us(1), {waves_of(Time::ns(700), 990)});
        if (which == 2) clients[2] = &s.claim(Time::us(1), 30, kWholeSm, Time::us(5), priority);
      };
      for (int i = 0; i < 3; ++i) add(order == 0 ? i : 2 - i);
      s.run();
      for (const Array::Client* client : clients) ends[order].push_back(client->done);
      BOOST_TEST((clients[2]->resident == Time::us(1)));
    }
    for (std::size_t i = 0; i < ends[0].size(); ++i) BOOST_TEST((ends[0][i] == ends[1][i]));
  }
}

// Whatever comes when: every kernel runs, its bytes are all counted (run() checks), and nobody is faster than alone.
BOOST_AUTO_TEST_CASE(work_is_conserved_in_any_order_of_arrival) {
  std::mt19937_64 random(7);
  const auto up_to = [&](std::uint64_t n) { return random() % n; };
  for (int run = 0; run < 60; ++run) {
    Array s;
    std::vector<std::pair<Array::Client*, double>> kernels;  // and when it would have ended alone
    std::vector<Array::Client*> claims;
    for (int i = 0; i < 12; ++i) {
      const Time when = Time::ns(static_cast<double>(up_to(20000)));
      if (up_to(4) == 0) {
        claims.push_back(&s.claim(when, static_cast<std::uint32_t>(1 + up_to(100)), up_to(2) == 0 ? kWholeSm : kSmall,
                                  Time::ns(static_cast<double>(1 + up_to(9000))),
                                  up_to(2) == 0 ? gpu::CommPriority::normal : gpu::CommPriority::high));
        continue;
      }
      std::vector<KernelTime> chain;
      double seconds = 0;
      for (std::uint64_t k = 0; k <= up_to(4); ++k) {
        KernelTime kernel = up_to(2) == 0 ? waves_of(Time::ns(static_cast<double>(50 + up_to(1000))), 1 + up_to(900))
                                          : stream_of(Time::ns(static_cast<double>(200 + up_to(5000))), 1e6);
        kernel.persistent = up_to(3) == 0;
        kernel.fixed_seconds = 1e-6;
        kernel.seconds = kernel.seconds_on({100});
        chain.push_back(kernel);
        seconds += kernel.seconds;
      }
      kernels.emplace_back(&s.kernels(when, chain), when.seconds() + seconds);
    }
    for (int i = 0; i < 6; ++i) {
      const double traffic = static_cast<double>(up_to(900)) * 1e9;
      s.at(Time::ns(static_cast<double>(up_to(30000))), [&s, traffic] { s.sms.set_traffic(traffic); });
    }
    s.run();
    for (const auto& [client, alone] : kernels) {
      BOOST_REQUIRE((client->done < Time::max()));
      BOOST_TEST(client->done.seconds() >= alone - 1e-12);
    }
    for (const Array::Client* claim : claims) BOOST_TEST((claim->resident < Time::max()));
    BOOST_TEST(s.sms.busy_sm_seconds(s.calendar.now()) <= 100 * s.calendar.now().seconds());
  }
}
