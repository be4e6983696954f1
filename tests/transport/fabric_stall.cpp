// A fabric that stands still says who waits where, and for whom.
#include "tests/support/simulation.h"
#include "tests/support/systemc_main.h"

#include "transport/study/stall.h"

using namespace railyard;
using namespace railyard::test;
using transport::Stall;

namespace {

/// Three switches in a ring, each with four nodes; every node sends two switches on, all the same way around. A switch takes
/// turns among its nodes and what comes around, so that what enters the ring outnumbers what leaves it.
struct RingOfSwitches : Simulation {
  explicit RingOfSwitches(Bytes buffer_bytes) : Simulation(1'000) {
    const transport::LinkDirection link = ideal(gb(10), Time::ns(150), buffer_bytes, Time::ns(100));
    for (std::uint32_t i = 0; i < 3; ++i) {
      transport::Switch& sw = add_switch();
      for (std::uint32_t k = 0; k < kNodes; ++k) attach(node(), sw, link);
    }
    for (std::uint32_t i = 0; i < 3; ++i) {
      const PortId onwards = join(switches[i], switches[(i + 1) % 3], link, link).first;
      for (std::uint32_t k = 0; k < kNodes; ++k)
        for (const std::uint32_t far : {1, 2}) switches[i].decoder().map((i + far) % 3 * kNodes + k, onwards);
    }
    for (std::uint32_t i = 0; i < 3; ++i)
      for (std::uint32_t k = 0; k < kNodes; ++k) send(Time(), i * kNodes + k, (i + 2) % 3 * kNodes + k, 100'000);
  }
  static constexpr std::uint32_t kNodes = 4;
  /// Ends when nothing can happen any more.
  std::vector<Stall> stalls_at_the_end() {
    sc_core::sc_start();
    return transport::stalls(fabric.devices());
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_deadlock_is_a_cycle_of_links) {
  RingOfSwitches s(4'000);
  const std::vector<Stall> stalls = s.stalls_at_the_end();
  BOOST_TEST(s.fabric.ledger().live() == 12u);
  const std::vector<Stall> cycle = transport::cycle_of(stalls);
  BOOST_TEST_REQUIRE(cycle.size() == 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    const transport::Device::Port& port = cycle[i].device->port(cycle[i].port);
    BOOST_TEST(port.peer == cycle[(i + 1) % 3].device);  // each waits for room at the next
    BOOST_TEST(cycle[i].outstanding >= 4'000u);
    BOOST_TEST((cycle[i].transaction->message->destination == (cycle[i].transaction->message->source + 8) % 12));
  }
  BOOST_TEST(stalls.size() > cycle.size());  // and the nodes wait for it
}

BOOST_AUTO_TEST_CASE(nothing_waits_when_all_is_over) {
  RingOfSwitches s(0);  // ample buffers: nothing can hold up anything
  BOOST_TEST(s.stalls_at_the_end().empty());
  BOOST_TEST(s.fabric.ledger().live() == 0u);
  BOOST_TEST(transport::cycle_of({}).empty());
}

BOOST_AUTO_TEST_CASE(what_waits_in_a_line_is_no_cycle) {
  // A slow sink, caught halfway: its input is full, and so is what leads there.
  Simulation s(1'000);
  const transport::LinkDirection link = ideal(gb(10), Time::ns(100), 4'000, Time::ns(100));
  transport::LinkDirection slow = link;
  slow.rate = gb(1);
  transport::Switch& first = s.add_switch();
  transport::Switch& second = s.add_switch();
  Simulation::attach(s.node(), first, link);
  Simulation::attach(s.node(), second, link, slow);
  first.decoder().map(1, Simulation::join(first, second, link, link).first);
  s.send(Time(), 0, 1, 1'000'000);
  std::vector<Stall> halfway;
  s.at(Time::us(500), [&] {
    halfway = transport::stalls(s.fabric.devices());
    BOOST_TEST(halfway.size() >= 2u);
    BOOST_TEST(transport::cycle_of(halfway).empty());
  });
  s.run();
  BOOST_TEST(!halfway.empty());
}
