// Where waiting is laid: at the link that others wait for, however far back buffers make them stand.
#include "tests/support/systemc_main.h"

#include <algorithm>

#include "tests/support/simulation.h"
#include "transport/study/free_links.h"

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
      for (std::uint32_t p = 0; p < device->ports(); ++p)
        seconds += device->port(PortId(p)).counters.waited[0].seconds();
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
  BOOST_TEST(row.waited(1) >
             0.9 * excess);  // the first link is ten times as fast, and has its own part while buffers fill
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
  BOOST_TEST(own.counters.waited[0].seconds() == (s.took[1] - s.alone[1]).seconds(),
             boost::test_tools::tolerance(0.02));
}

namespace {

/// Costs of every message as it lands, links by group.
struct Costs : transport::FabricListener {
  Costs(Simulation& s, transport::MessageCosts::Groups link_groups, std::size_t count)
      : groups(std::move(link_groups)),
        of(s.fabric.context(), s.fabric.routes(), groups, count),
        worlds{kGroups + count, 0, 1, 2, 3, 4, kGroups},
        links(worlds) {
    s.fabric.add_listener(*this);
  }
  void on_send(const transport::Message& message, Time) override { of.sent(message); }
  void on_delivered(const transport::Message& message, Time now) override {
    costs.push_back(of.landed(message, now));
    arrived.push_back(links.carry({&of.path_costs(message), message.bytes, message.traffic_class, message.uncontended},
                                  std::vector<Time>(worlds.count)));
  }
  void on_start(const transport::Device&, PortId, const transport::Transaction&, Time,
                const transport::Crossing&) override {}
  void on_queue(const transport::Device&, PortId, Bytes, Time) override {}
  void on_credit(const transport::Device&, PortId, std::uint8_t, Bytes, Time, Time) override {}

  transport::MessageCosts::Groups groups;
  transport::MessageCosts of;
  std::vector<std::vector<transport::Cost>> costs;  ///< in the order in which messages landed
  static constexpr std::size_t kGroups = 4 + transport::kMaxClasses;
  const transport::FreeLinks::Worlds worlds;
  transport::FreeLinks links;
  std::vector<std::vector<Time>> arrived;  ///< by world
  Time without_group(std::size_t message, std::size_t group) const { return arrived[message][kGroups + group]; }
};

}  // namespace

BOOST_AUTO_TEST_CASE(without_its_slowest_link_a_message_takes_what_the_next_slowest_does) {
  // Of a row of links at 50, 10, 5 and 50 GB/s, the third is slowest, and the second the next.
  Simulation s(4000);
  std::vector<PortId> onward;
  for (int i = 0; i < 3; ++i) s.add_switch();
  const auto fast = ideal(gb(50), Time::ns(100));
  Simulation::attach(s.node(), s.switches[0], fast);
  for (std::size_t i = 0; i < 2; ++i) {
    const auto link = ideal(gb(i == 0 ? 10 : 5), Time::ns(100));
    onward.push_back(Simulation::join(s.switches[i], s.switches[i + 1], link, link).first);
    s.switches[i].decoder().set_default(onward.back());
  }
  Simulation::attach(s.node(), s.switches[2], fast);
  const transport::PortCounters &next = s.switches[0].port(onward[0]).counters,
                                &slowest = s.switches[1].port(onward[1]).counters;
  Costs costs(s, {{&slowest, 0}, {&next, 1}}, 2);
  for (int i = 0; i < 3; ++i) s.send(Time(), 0, 1, kBytes);
  s.run();

  const double each = gb(5).time_for(kBytes).seconds(), there = gb(10).time_for(kBytes).seconds();
  for (std::size_t i = 0; i < 3; ++i) {
    const auto wire = std::find_if(costs.costs[i].begin(), costs.costs[i].end(),
                                   [](const transport::Cost& c) { return c.kind == transport::CostKind::wire; });
    BOOST_TEST_REQUIRE((wire != costs.costs[i].end() && wire->port == &slowest));
    BOOST_TEST(wire->time.seconds() == each, boost::test_tools::tolerance(0.01));
    BOOST_TEST(wire->hidden_elsewhere.seconds() == there, boost::test_tools::tolerance(0.01));
    // A queue at the slowest link would be one at the next: half as long.
    BOOST_TEST(s.took[i].seconds() == each * static_cast<double>(i + 1), boost::test_tools::tolerance(0.01));
    BOOST_TEST(costs.without_group(i, 0).seconds() == there * static_cast<double>(i + 1),
               boost::test_tools::tolerance(0.01));
    // Without the next slowest, the slowest is what remains.
    BOOST_TEST(costs.without_group(i, 1).seconds() == each * static_cast<double>(i + 1),
               boost::test_tools::tolerance(0.01));
  }
}

BOOST_AUTO_TEST_CASE(messages_that_a_slow_sender_keeps_apart_queue_without_it) {
  Simulation s(4000);
  s.add_switch();
  const auto link = ideal(gb(10), Time::ns(100));
  for (int i = 0; i < 2; ++i) Simulation::attach(s.node(), s.switches[0], link);
  Costs costs(s, {}, 0);
  constexpr int kMessages = 4;
  for (int i = 0; i < kMessages; ++i) s.send(Time::ms(static_cast<std::uint64_t>(i)), 0, 1, kBytes);
  s.run();
  // In worlds without the sender, all are sent at 0: the link carries one after the other.
  const double each = gb(10).time_for(kBytes).seconds();
  for (int i = 0; i < kMessages; ++i)
    BOOST_TEST(costs.arrived[static_cast<std::size_t>(i)][0].seconds() == each * (i + 1),
               boost::test_tools::tolerance(0.01));
}

BOOST_AUTO_TEST_CASE(messages_that_belong_together_take_what_the_busiest_link_left_does) {
  Simulation s(4000);
  s.add_switch();
  for (int i = 0; i < 3; ++i)
    Simulation::attach(s.node(), s.switches[0], ideal(gb(10), Time::ns(100)), ideal(gb(4), Time::ns(100)));
  const transport::PortCounters& down = s.switches[0].port(PortId(2)).counters;
  Costs costs(s, {{&down, 0}}, 1);
  transport::MessageCosts::Load load;
  s.send(Time::us(7), 0, 2, kBytes);
  s.send(Time::us(7), 1, 2, kBytes);
  s.send(Time::us(7), 1, 2, kBytes);
  s.run();
  for (const transport::Message& message : s.wanted()) {
    transport::Message landed = message;
    landed.started = Time::us(7);
    costs.of.add(load, landed);
  }
  const auto floors = costs.of.floors(load);
  const auto kClose = boost::test_tools::tolerance(0.001);
  BOOST_TEST(floors.lead.fs() == Time::us(7).fs());
  BOOST_TEST(floors.links.seconds() == gb(4).time_for(3 * kBytes).seconds(), kClose);  // the way down, of all three
  BOOST_TEST(floors.beside_group[0].seconds() == gb(10).time_for(2 * kBytes).seconds(), kClose);  // node 1's way up
  BOOST_TEST(floors.beside_slowest.seconds() == floors.beside_group[0].seconds(), kClose);
  BOOST_TEST(floors.engines.fs() == 0u);
}
