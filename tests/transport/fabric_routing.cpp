// The ways up of a leaf-spine network: by destination, by queue pair, by what is free.
#include "tests/support/leaf_spine.h"
#include "tests/support/systemc_main.h"

#include <random>

using namespace railyard;
using namespace railyard::test;
using infiniband::Routing;
namespace tt = boost::test_tools;

namespace {

constexpr Bytes kElephant = 4'000'000;

LeafSpine::Shape ideal_network() {
  LeafSpine::Shape shape;
  shape.pcie = ideal(gb(64), Time::ns(100));
  shape.cable = shape.between = ideal(gb(50), Time::ns(300));
  return shape;
}

/// How much longer a message took than alone, in units of its time on a cable: 1 where another takes half of its way.
double delay(const LeafSpine& s, std::size_t message) {
  return (s.took[message].seconds() - s.alone[message].seconds()) / (static_cast<double>(kElephant) / 50e9);
}

/// Nodes 0 and 1 of one leaf send to 2 and 3 of the other. @return the mean of their delays
double delay_of_two_elephants(Routing routing, std::uint32_t queue_pair) {
  LeafSpine s(ideal_network(), routing, 4096);
  s.send(Time(), 0, 2, kElephant);
  s.send(Time(), 1, 3, kElephant, 0, queue_pair);
  s.run();
  BOOST_TEST(std::abs(delay(s, 0) - delay(s, 1)) < 0.01);
  return 0.5 * (delay(s, 0) + delay(s, 1));
}

}  // namespace

BOOST_AUTO_TEST_CASE(ecmp_halves_two_elephants_that_collide) {
  int collided = 0, apart = 0;
  for (std::uint32_t queue_pair = 0; queue_pair < 8; ++queue_pair) {
    const double delay = delay_of_two_elephants(Routing::ecmp, queue_pair);
    (delay > 0.5 ? collided : apart) += 1;
    BOOST_TEST(std::abs(delay - (delay > 0.5 ? 1 : 0)) < 0.01);
    BOOST_TEST(delay_of_two_elephants(Routing::ecmp, queue_pair) == delay);  // a queue pair keeps its port
  }
  BOOST_TEST(collided > 0);
  BOOST_TEST(apart > 0);
}

BOOST_AUTO_TEST_CASE(adaptive_routing_gives_both_the_full_rate) {
  for (std::uint32_t queue_pair = 0; queue_pair < 3; ++queue_pair)
    BOOST_TEST(delay_of_two_elephants(Routing::adaptive, queue_pair) < 0.01);
}

BOOST_AUTO_TEST_CASE(deterministic_routing_goes_by_destination) {
  // LIDs 2 and 3 have different spines of two. With four nodes a leaf, 4 and 6 have the same one.
  BOOST_TEST(delay_of_two_elephants(Routing::deterministic, 0) < 0.01);
  LeafSpine::Shape shape = ideal_network();
  shape.nodes_per_leaf = 4;
  LeafSpine s(shape, Routing::deterministic, 4096);
  s.send(Time(), 0, 4, kElephant);
  s.send(Time(), 1, 6, kElephant);
  s.run();
  for (std::size_t m = 0; m < 2; ++m) BOOST_TEST(std::abs(delay(s, m) - 1) < 0.01);
}

BOOST_AUTO_TEST_CASE(adaptive_routing_avoids_a_slow_way) {
  // One of two ways at a quarter of its rate: together they carry 1.25 cables, and one elephant needs one.
  for (const Routing routing : {Routing::deterministic, Routing::adaptive}) {
    LeafSpine s(ideal_network(), routing, 4096);
    const PortId first_up(2);  // after the ports of two nodes; LID 2 goes there
    s.fabric.faults().derate(Time(), {s.leaves[0], first_up}, 0.25);
    s.send(Time::ns(1), 0, 2, kElephant);
    s.run();
    const double full_rate_s = static_cast<double>(kElephant) / 50e9;
    BOOST_TEST(s.took[0].seconds() == (routing == Routing::adaptive ? 1 : 4) * full_rate_s, tt::tolerance(0.03));
  }
}

BOOST_AUTO_TEST_CASE(every_byte_arrives_once_whatever_the_routing) {
  for (const Routing routing : {Routing::deterministic, Routing::ecmp, Routing::adaptive}) {
    LeafSpine::Shape shape = ideal_network();
    shape.leaves = 3;
    shape.spines = 2;
    shape.nodes_per_leaf = 3;
    shape.between.buffer_bytes = shape.cable.buffer_bytes = 20'000;
    shape.between.credit_latency = shape.cable.credit_latency = Time::ns(300);
    LeafSpine s(shape, routing, 4096);
    std::mt19937_64 random(7);
    Bytes between_leaves = 0;
    for (int m = 0; m < 200; ++m) {
      const auto from = static_cast<transport::Window>(random() % 9);
      const auto to = static_cast<transport::Window>((from + 1 + random() % 8) % 9);
      const Bytes bytes = random() % 100'000;
      s.send(Time::fs(random() % Time::us(20).fs()), from, to, bytes, 0, static_cast<std::uint32_t>(random() % 3));
      if (from / 3 != to / 3) between_leaves += bytes;
    }
    s.run();  // all landed, every credit home
    Bytes up = 0, down = 0;
    for (const infiniband::IbSwitch* leaf : s.leaves)
      for (std::uint32_t p = 3; p < 5; ++p) up += leaf->port(PortId(p)).counters.payload_bytes;
    for (const infiniband::IbSwitch* spine : s.spines)
      for (std::uint32_t p = 0; p < 3; ++p) down += spine->port(PortId(p)).counters.payload_bytes;
    BOOST_TEST(up == between_leaves);
    BOOST_TEST(down == between_leaves);
  }
}
