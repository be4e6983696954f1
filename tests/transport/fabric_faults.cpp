// Links that slow down during a run: times in closed form, before and after the change.
#include "tests/support/simulation.h"
#include "tests/support/systemc_main.h"
#include "transport/faults.h"

using namespace railyard;
using namespace railyard::test;
using transport::LinkEnd;

namespace {

/// Two nodes, one link of 50 GB/s.
struct Pair : Simulation {
  explicit Pair(const transport::LinkDirection& link, Bytes cut = 10'000) : Simulation(cut) {
    node();
    node();
    join(nodes[0], nodes[1], link, link);
  }
  LinkEnd link(std::size_t from) { return {&nodes[from], PortId(0)}; }
};

}  // namespace

BOOST_AUTO_TEST_CASE(half_the_rate_takes_twice_as_long_from_that_instant) {
  // Trains of 10 kB take 200 ns. At 10.1 us number 50 is on the link and keeps its time; 49 more take 400 ns each.
  Pair s(ideal(gb(50), Time::ns(300)));
  s.fabric.faults().derate(Time::ns(10'100), s.link(0), 0.5);
  s.send(Time(), 0, 1, 1'000'000);
  s.send(Time(), 1, 0, 1'000'000);
  s.run();
  BOOST_TEST(s.landed[0].fs() == (Time::ns(51 * 200 + 49 * 400 + 300)).fs());
  BOOST_TEST(s.landed[1].fs() == (Time::ns(100 * 200 + 300)).fs());  // the other direction is as it was
  BOOST_TEST(s.nodes[0].port(PortId(0)).counters.busy.fs() == Time::ns(51 * 200 + 49 * 400).fs());
}

BOOST_AUTO_TEST_CASE(a_change_between_two_trains_and_a_restored_rate) {
  // The ratio is of the rate the link was built with, whatever it is at the time.
  Pair s(ideal(gb(50), Time()));
  s.fabric.faults().derate(Time::us(4), s.link(0), 0.5);
  s.fabric.faults().derate(Time::us(8), s.link(0), 0.25);
  s.fabric.faults().derate(Time::us(16), s.link(0), 1);
  s.send(Time(), 0, 1, 1'000'000);
  s.run();
  // 20 trains in 4 us, 10 in 4 us at half, 10 in 8 us at a quarter, 60 at the full rate.
  BOOST_TEST(s.landed[0].fs() == Time::ns(16'000 + 60 * 200).fs());
}

BOOST_AUTO_TEST_CASE(a_rate_above_the_window_changes_nothing) {
  // W/RTT = 5 kB / 500 ns = 10 GB/s sets the pace until the line is slower than that.
  Pair s(ideal(gb(50), Time::ns(250), 5'000, Time::ns(250)), 1'000);
  s.fabric.faults().derate(Time::us(10), s.link(0), 0.5);
  s.fabric.faults().derate(Time::us(20), s.link(0), 0.1);  // 5 GB/s
  s.send(Time(), 0, 1, 300'000);
  s.run();
  BOOST_TEST(s.landed[0].fs() == Time::ns(20'000 + 100'000 / 5 + 250).fs());
}

BOOST_AUTO_TEST_CASE(messages_after_a_change_are_measured_against_the_new_rate) {
  Pair s(ideal(gb(50), Time()));
  s.fabric.faults().derate(Time::us(50), s.link(0), 0.5);
  s.send(Time(), 0, 1, 1'000'000);
  s.send(Time::us(100), 0, 1, 1'000'000);
  s.run();
  for (std::size_t m = 0; m < 2; ++m) BOOST_TEST(s.took[m].fs() == s.alone[m].fs());
  BOOST_TEST(s.alone[1].fs() == 2 * s.alone[0].fs());
}

BOOST_AUTO_TEST_CASE(a_nic_short_of_tags_keeps_its_pace_when_its_link_slows) {
  // tags x MRRS per no-load read round trip, before and after: the round trip contains the slowest link's time for a read.
  const auto read_rate = [](double ratio) {
    Simulation s(4096);
    transport::LinkDirection pcie = ideal(gb(64), Time::ns(100)), cable = ideal(gb(50), Time::ns(100));
    pcie.packet.max_read_request_bytes = cable.packet.max_read_request_bytes = 4096;
    transport::Switch& ib = s.add_switch(transport::Switch::DecodeBy::lid);
    std::deque<infiniband::Nic> nics;
    for (std::uint32_t i = 0; i < 2; ++i) {
      infiniband::NicTiming timing;
      timing.read_bytes = 4 * 4096;
      nics.emplace_back(("nic" + std::to_string(i)).c_str(), s.fabric.context(), 100 + i, i, timing);
      s.fabric.add_device(nics[i]);
      s.node(Time::ns(500));
      Simulation::join(nics[i], s.nodes[i], pcie, pcie);
      ib.decoder().map(i, Simulation::join(nics[i], ib, cable, cable).second);
    }
    s.nodes[0].route(1, nics[0], 1);
    if (ratio != 1) s.fabric.faults().derate(Time::ns(1), {&s.nodes[0], PortId(0)}, ratio);
    s.send(Time::ns(2), 0, 1, 4'000'000);
    s.run();
    return s.took[0].fs() - s.alone[0].fs();
  };
  BOOST_TEST(read_rate(1) == 0u);
  BOOST_TEST(read_rate(0.5) == 0u);
}
