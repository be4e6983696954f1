// Where waiting is laid: at the link that others wait for, however far back buffers make them stand.
#include "tests/support/systemc_main.h"
#include "tests/support/simulation.h"

using namespace railyard;
using test::gb;
using test::ideal;
using test::Simulation;

namespace {

constexpr Bytes kBytes = 2'000'000;

/// Two nodes, a row of switches, a node at the other end; one of the links between the switches is slow.
struct Row : Simulation {
  Row(std::size_t count, std::size_t slow, Bytes buffer, Bytes cut) : Simulation(cut) {
    const auto fast = ideal(gb(50), Time::ns(100), buffer, Time::ns(100));
    for (std::size_t i = 0; i < count; ++i) add_switch();
    attach(node(), switches.front(), fast);
    attach(node(), switches.front(), fast);
    for (std::size_t i = 0; i + 1 < count; ++i) {
      const auto link = i == slow ? ideal(gb(5), Time::ns(100), buffer, Time::ns(100)) : fast;
      const auto [out, in] = join(switches[i], switches[i + 1], link, link);
      switches[i].decoder().set_default(out);
      onward.push_back(out);
    }
    attach(node(), switches.back(), fast);
  }
  double waited(std::size_t i) { return switches[i].port(onward[i]).counters.waited[0].seconds(); }
  double waited_in_all() {
    double seconds = 0;
    for (const transport::Device* device : fabric.devices())
      for (std::uint32_t p = 0; p < device->ports(); ++p) seconds += device->port(PortId(p)).counters.waited[0].seconds();
    return seconds;
  }
  std::vector<PortId> onward;  ///< of each switch but the last
};

}  // namespace

BOOST_AUTO_TEST_CASE(two_messages_wait_for_the_slow_link_wherever_they_stand) {
  for (const Bytes cut : {1000, 8000})
    for (std::size_t slow = 0; slow < 3; ++slow) {
      Row row(4, slow, 20'000, cut);
      row.send(Time(), 0, 2, kBytes);
      row.send(Time(), 1, 2, kBytes);
      row.run();
      // Either alone takes 400 us on the slow link, both together 800: each waits for what the other one takes.
      const double excess = row.waited_in_all();
      BOOST_TEST(excess == 2 * gb(5).time_for(kBytes).seconds(), boost::test_tools::tolerance(0.02));
      BOOST_TEST(row.waited(slow) > 0.95 * excess, "of " << excess << " s " << row.waited(slow) << " at the slow link");
    }
}

BOOST_AUTO_TEST_CASE(a_message_behind_another_of_its_sender_waits_for_the_slow_link) {
  Row row(3, 1, 20'000, 4000);
  row.send(Time(), 0, 2, kBytes);
  row.send(Time(), 0, 2, kBytes);
  row.run();
  const double excess = row.waited_in_all();
  BOOST_TEST(excess == gb(5).time_for(kBytes).seconds(), boost::test_tools::tolerance(0.02));
  BOOST_TEST(row.waited(1) > 0.9 * excess);  // the first link is ten times as fast, and has its own part while buffers fill
}

BOOST_AUTO_TEST_CASE(where_buffers_are_ample_it_is_the_same_link) {
  Row row(3, 1, 0, 4000);
  row.send(Time(), 0, 2, kBytes);
  row.send(Time(), 1, 2, kBytes);
  row.run();
  BOOST_TEST(row.waited(1) > 0.9 * row.waited_in_all());
}

BOOST_AUTO_TEST_CASE(a_link_that_waits_for_its_own_credit_is_its_own_fault) {
  // W/RTT = 2 kB / 200 ns = 10 GB/s on a link of 50, with nothing slow behind it.
  Simulation s(1000);
  transport::Switch& sw = s.add_switch();
  const auto narrow = ideal(gb(50), Time::ns(100), 2000, Time::ns(100)), wide = ideal(gb(50), Time::ns(100));
  Simulation::attach(s.node(), sw, narrow, wide);
  Simulation::attach(s.node(), sw, wide);
  s.send(Time(), 0, 1, kBytes);
  s.send(Time(), 0, 1, kBytes);
  s.run();
  const transport::Device::Port& own = s.nodes[0].port(PortId(0));
  BOOST_TEST(own.counters.waited[0].seconds() == (s.took[1] - s.alone[1]).seconds(), boost::test_tools::tolerance(0.02));
}
