// Fluid fidelity where the answer is known: lone messages, streams in line, rings, shares of a bottleneck.
#include "tests/support/collective_star.h"
#include "tests/support/systemc_main.h"

using namespace railyard;
using test::gb;
using test::ideal;
using test::Simulation;

namespace {

/// What the machines' links have: packets, acks, latencies that differ, buffers larger than rate x round trip.
transport::LinkDirection packets(Rate rate, Time latency) {
  transport::LinkDirection link = ideal(rate, latency, 1 << 20, latency);
  link.packet.max_payload_bytes = 256;
  link.packet.overhead_bytes = 16;
  link.packet.reverse_bytes_per_packet = 16;
  return link;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_lone_message_takes_what_trains_take) {
  for (const Bytes bytes : {0, 1, 256, 5'000, 1'000'000, 30'000'001}) {
    Time took[2];
    for (const bool fluid : {false, true}) {
      Simulation s;
      transport::Switch& near = s.add_switch();
      transport::Switch& far = s.add_switch();
      Simulation::attach(s.node(), near, packets(gb(64), Time::ns(100)));
      Simulation::attach(s.node(), far, packets(gb(50), Time::ns(70)));
      near.decoder().set_default(
          Simulation::join(near, far, packets(gb(25), Time::ns(500)), packets(gb(25), Time::ns(500))).first);
      if (fluid) s.fabric.model_as_fluid();
      s.send(Time::ns(3), 0, 1, bytes);
      s.run();
      took[fluid] = s.took[0];
      BOOST_TEST(s.took[0].fs() == s.alone[0].fs());
    }
    BOOST_TEST(took[0].fs() == took[1].fs());
  }
}

BOOST_AUTO_TEST_CASE(messages_of_one_queue_pair_follow_each_other) {
  Time took[2][3];
  for (const bool fluid : {false, true}) {
    Simulation s(1000);
    transport::Switch& sw = s.add_switch();
    for (int i = 0; i < 2; ++i) Simulation::attach(s.node(), sw, ideal(gb(7), Time::ns(100)));
    if (fluid) s.fabric.model_as_fluid();
    s.send(Time(), 0, 1, 10'000);
    s.send(Time(), 0, 1, 30'000);
    s.send(Time::us(3), 0, 1, 5'000);
    s.run();
    for (int i = 0; i < 3; ++i) took[fluid][i] = s.took[i];
  }
  for (int i = 0; i < 3; ++i) BOOST_TEST(took[0][i].fs() == took[1][i].fs());
}

BOOST_AUTO_TEST_CASE(a_ring_takes_its_closed_form) {
  constexpr Bytes kBytes = 64 << 20;
  for (const std::uint32_t members : {2u, 8u, 64u}) {
    test::CollectiveStar star(members, ideal(gb(450), Time::ns(250)));
    star.fabric.model_as_fluid();
    const Time took =
        star.run_once(test::collective_of(collective::Operation::all_reduce, collective::Algorithm::ring, kBytes));
    BOOST_TEST(took.fs() == ((gb(450).time_for(kBytes / members) + Time::ns(500)) * (2 * (members - 1))).fs());
  }
}

BOOST_AUTO_TEST_CASE(a_line_is_charged_while_bytes_leave) {
  // Two messages of 10 and 4 us share the line of a switch from 4 us on, each at half of the rate. The short one ends at
  // 12 us, the long one at 14 us.
  Simulation s;
  transport::Switch& sw = s.add_switch();
  for (int i = 0; i < 3; ++i) Simulation::attach(s.node(), sw, ideal(gb(10), Time()));
  s.fabric.model_as_fluid();
  s.send(Time(), 0, 2, 100'000);
  s.send(Time::us(4), 1, 2, 40'000);
  const transport::Device::Port &shared = sw.port(PortId(2)), &own = s.nodes[0].port(PortId(0));
  const auto within = [](Time now, Time from, Time to) { return since(sooner(now, to), from); };
  const auto is = [](Time charged, Time expected) {
    return charged <= expected + Time::ns(1) && expected <= charged + Time::ns(1);
  };
  for (std::uint64_t half_us = 1; half_us <= 40; ++half_us)
    s.at(Time::ns(500 * half_us), [&] {
      s.fabric.charge_until_now();
      const Time now = s.fabric.now();
      BOOST_TEST(is(shared.busy_until(now), within(now, Time(), Time::us(14))));
      const Time halved = Time::fs(within(now, Time::us(4), Time::us(12)).fs() / 2);
      BOOST_TEST(
          is(own.busy_until(now), within(now, Time(), Time::us(4)) + halved + within(now, Time::us(12), Time::us(14))));
    });
  s.run();
  BOOST_TEST((shared.counters.busy == Time::us(14) && own.counters.busy == Time::us(10)));
}

BOOST_AUTO_TEST_CASE(acks_of_the_other_direction_take_their_share) {
  // Two members send each other all they have: 272 bytes of a packet one way, 16 of its answer the other.
  constexpr Bytes kBytes = 64 << 20;
  test::CollectiveStar star(2, packets(gb(450), Time::ns(250)));
  star.fabric.model_as_fluid();
  const Time took =
      star.run_once(test::collective_of(collective::Operation::all_reduce, collective::Algorithm::ring, kBytes, 4));
  const Time line = gb(450).time_for(kBytes / 256 * (272 + 16));
  BOOST_TEST((line <= took && took <= line + Time::ns(600)));  // two hops, and what the first packet is stored for
}
