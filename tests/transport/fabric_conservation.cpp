// Nothing is lost, nothing is invented: spies on every link of random networks see exactly what the counters say.
#include "tests/support/network.h"
#include "tests/support/systemc_main.h"

using namespace railyard;
using test::Network;

namespace {

transport::VcPlan four_classes() {
  transport::VcPlan plan;
  plan.assign(0, {0, 1, 0});
  plan.assign(1, {1, 3, 0});
  plan.assign(2, {2, 1, 1});
  plan.assign(3, {0, 1, 0});
  return plan;
}

void check(Network& s) {
  s.run();
  for (const Network::Watched& w : s.watched) {
    const auto& counters = w.device->port(w.port).counters;
    BOOST_TEST(w.spy->transactions == counters.transactions);
    BOOST_TEST(w.spy->payload_bytes == counters.payload_bytes);
    BOOST_TEST(w.spy->wire_bytes == counters.wire_bytes);
    BOOST_TEST(w.spy->credit_bytes == counters.wire_bytes);
    BOOST_TEST(counters.wire_bytes >= counters.payload_bytes);
  }
}

/// Every message crosses every link of its path once, and is never faster than alone.
void check_messages(Network& s, const std::vector<std::pair<Bytes, std::size_t>>& bytes_and_hops) {
  Bytes expected = 0, seen = 0;
  for (const auto& [bytes, hops] : bytes_and_hops) expected += bytes * hops;
  for (const Network::Watched& w : s.watched) seen += w.spy->payload_bytes;
  BOOST_TEST(seen == expected);
  const Time rounding = Time::fs(10);  // alone, each stream of a path is rounded up once
  for (std::size_t i = 0; i < s.took.size(); ++i)
    BOOST_TEST((s.took[i] + rounding >= s.alone[i]),
               "message " << i << " took " << s.took[i].fs() << ", alone " << s.alone[i].fs());
}

void run_and_check(Network& s, std::size_t messages) {
  s.add_traffic(messages, 400'000, Time::us(100));
  std::vector<std::pair<Bytes, std::size_t>> bytes_and_hops;
  for (const transport::Message& m : s.wanted())
    bytes_and_hops.push_back({m.bytes, s.fabric.path(m.source, m.destination, m.traffic_class).lanes[0].hops.size()});
  check(s);
  check_messages(s, bytes_and_hops);
}

}  // namespace

BOOST_AUTO_TEST_CASE(random_trees) {
  for (const std::uint32_t seed : {1, 2, 3, 4, 5, 6}) {
    BOOST_TEST_INFO("seed " << seed);
    Network s(seed, seed % 2 == 0 ? 0 : 700 * seed, four_classes());
    s.grow_tree(1 + seed, 6 + seed);
    run_and_check(s, 300);
  }
}

BOOST_AUTO_TEST_CASE(random_leaf_spines) {
  for (const std::uint32_t seed : {11, 12, 13}) {
    BOOST_TEST_INFO("seed " << seed);
    Network s(seed, seed == 12 ? 4096 : 0, four_classes());
    s.grow_leaf_spine(3, 2, 4);
    run_and_check(s, 300);
  }
}

BOOST_AUTO_TEST_CASE(a_spy_changes_nothing) {
  // The same two hops with and without spies in between.
  const auto run = [](bool spied) {
    test::Simulation s(4096);
    std::deque<test::Spy> spies;
    transport::Switch& sw = s.add_switch();
    const auto link = test::ideal(test::gb(50), Time::ns(100), 20'000, Time::ns(100));
    for (transport::Window w = 0; w < 3; ++w) {
      test::MemoryNode& n = s.node();
      const PortId a = n.add_port("port0", link);
      const PortId b = sw.add_port("port" + std::to_string(w), link);
      sw.decoder().map(w, b);
      if (spied) {
        test::Spy& up = spies.emplace_back(("up" + std::to_string(w)).c_str());
        test::Spy& down = spies.emplace_back(("down" + std::to_string(w)).c_str());
        test::Spy::between(n, a, sw, b, up, down);
      } else {
        transport::Device::connect(n, a, sw, b);
      }
    }
    s.send(Time(), 0, 2, 500'000);
    s.send(Time::ns(10), 1, 2, 300'000);
    s.send(Time::ns(20), 2, 0, 300'000);
    s.run();
    std::vector<std::uint64_t> times;
    for (const Time t : s.landed) times.push_back(t.fs());
    return times;
  };
  BOOST_TEST(run(true) == run(false), boost::test_tools::per_element());
}
