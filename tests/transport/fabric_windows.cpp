// Back-pressure: a buffer smaller than rate x round trip gives exactly W/RTT, whatever the train size; a larger one the
// line.
#include "tests/support/simulation.h"
#include "tests/support/systemc_main.h"

using namespace railyard;
using test::gb;
using test::ideal;
using test::Simulation;

namespace {

constexpr Bytes kMessage = 3'000'000;

/// A message over one or two hops, of which the first has the buffer.
Time time_of(Bytes buffer, Bytes cut, std::size_t hops) {
  Simulation s(cut);
  const auto link = ideal(gb(50), Time::ns(700), buffer, Time::ns(300));
  test::MemoryNode& a = s.node();
  test::MemoryNode& b = s.node();
  if (hops == 1) {
    Simulation::join(a, b, link, link);
  } else {
    transport::Switch& sw = s.add_switch();
    Simulation::attach(a, sw, link);
    Simulation::attach(b, sw, ideal(gb(50), Time::ns(500)));
  }
  s.send(Time(), 0, 1, kMessage);
  s.run();
  BOOST_TEST(s.alone[0].fs() == s.took[0].fs());
  return s.took[0] - Time::ns(hops == 1 ? 700 : 1200);
}

const std::vector<Bytes> kCuts{100, 256, 999, 3000, 4096, 7000, 10'000, 10'001, 15'000, 64'000, 300'000, 4'000'000};

}  // namespace

BOOST_AUTO_TEST_CASE(a_small_window_gives_window_over_round_trip_at_any_train_size) {
  // W = 10 000 B, RTT = 1 us: 10 GB/s, so 300 us; a fifth of the line.
  for (const std::size_t hops : {1, 2})
    for (const Bytes cut : kCuts) {
      BOOST_TEST_INFO(hops << " hops, trains of " << cut);
      BOOST_TEST(time_of(10'000, cut, hops).fs() == Time::us(300).fs());
    }
}

BOOST_AUTO_TEST_CASE(a_window_of_rate_times_round_trip_gives_the_line) {
  for (const Bytes buffer : {50'000, 50'001, 65'536, 1'000'000})
    for (const Bytes cut : kCuts) BOOST_TEST(time_of(buffer, cut, 1).fs() == Time::us(60).fs());
}

BOOST_AUTO_TEST_CASE(throughput_follows_the_window_up_to_the_line) {
  for (const Bytes buffer : {1'000, 2'500, 7'300, 20'000, 33'333, 49'999, 50'000, 70'000, 200'000}) {
    const double expected = std::min(50e9, static_cast<double>(buffer) / 1e-6);
    BOOST_TEST(static_cast<double>(kMessage) / time_of(buffer, 4096, 1).seconds() == expected,
               boost::test_tools::tolerance(1e-9));
  }
}

BOOST_AUTO_TEST_CASE(channels_have_windows_of_their_own) {
  transport::VcPlan plan;
  plan.assign(0, {0, 1, 0});
  plan.assign(1, {1, 1, 0});
  Simulation s(1000, plan);
  const auto link = ideal(gb(50), Time::ns(700), 10'000, Time::ns(300));
  test::MemoryNode& a = s.node();
  Simulation::join(a, s.node(), link, link);
  s.send(Time(), 0, 1, kMessage, 0);
  s.send(Time(), 0, 1, kMessage, 1);
  s.run();
  // Each at 10 GB/s on the 50 GB/s line; the second waits once for a train of the first.
  BOOST_TEST(s.took[0].fs() == (Time::us(300) + Time::ns(700)).fs());
  BOOST_TEST((s.took[1] >= s.took[0]));
  BOOST_TEST((s.took[1] <= s.took[0] + Time::ns(20)));
}

BOOST_AUTO_TEST_CASE(a_slow_output_holds_the_sender_to_its_rate_and_its_buffer) {
  Simulation s(1000);
  transport::Switch& sw = s.add_switch();
  test::MemoryNode& a = s.node();
  Simulation::attach(a, sw, ideal(gb(50), Time::ns(100), 20'000, Time::ns(100)));
  Simulation::attach(s.node(), sw, ideal(gb(5), Time::ns(100), 20'000, Time::ns(100)));
  s.send(Time(), 0, 1, 1'000'000);
  s.run();
  BOOST_TEST(s.took[0].fs() == (Time::us(200) + Time::ns(200)).fs());
  BOOST_TEST(sw.port(PortId(1)).counters.peak_queued_bytes <= 21'000u);
  BOOST_TEST(sw.port(PortId(1)).counters.peak_queued_bytes >= 18'000u);
}
