// Properties of the fabric on thousands of random cases: networks of mixed links (rates, latencies, buffers, packets)
// in stars, chains, trees and leaf-spines, with random classes on random virtual channels, weights and priorities,
// under random traffic. Each network takes several rounds, each beginning when the one before is over. The invariants
// (transport/invariants.h) are watched throughout: bytes in = bytes out for every message at every device, bounded
// credit, no line faster than its rate.
#include "tests/support/network.h"
#include "tests/support/systemc_main.h"

using namespace railyard;
using test::Network;

namespace {

constexpr Time kGap = Time::us(2);  // longer than any credit of these networks takes to come home

transport::VcPlan random_plan(std::mt19937& random) {
  constexpr std::size_t kDrawn = 8;  // with nine, one of the other networks has the small buffer of docs/fidelity.md
  transport::VcPlan plan;
  for (std::size_t c = 0; c < kDrawn; ++c) {
    plan.assign(c, {static_cast<std::uint8_t>(random() % 3), static_cast<std::uint32_t>(1 + random() % 4),
                    static_cast<std::uint8_t>(random() % 2)});
  }
  return plan;
}

/// A network of its own for every seed, over all shapes and transaction sizes.
struct Case {
  explicit Case(std::uint32_t seed)
      : random(seed), plan(random_plan(random)), net(seed, transaction_bytes(seed), plan) {
    BOOST_TEST_INFO_SCOPE("seed " << seed);
    const std::size_t nodes = 3 + random() % 6;
    switch (seed % 4) {
      case 0: net.grow_tree(1, nodes); break;
      case 1: net.grow_tree(2 + random() % 3, nodes, Network::Shape::chain); break;
      case 2: net.grow_tree(2 + random() % 4, nodes); break;
      case 3: net.grow_leaf_spine(2, 1 + random() % 2, 2 + random() % 2); break;
    }
  }
  static Bytes transaction_bytes(std::uint32_t seed) {
    constexpr Bytes kSizes[] = {0, 700, 4096, 16'384, 1u << 30};  // automatic, ragged, two fixed ones, whole messages
    return kSizes[seed / 4 % 5];
  }
  /// When the next round can begin.
  Time next_round() const { return net.landed.empty() ? Time() : net.fabric.now() + kGap; }

  std::mt19937 random;
  transport::VcPlan plan;
  Network net;
};

constexpr std::uint32_t kNetworks = 250;
constexpr int kRounds = 12;

/// A switch that is not to be trusted: what leaves it is not what came in.
class Leak : public transport::Switch {
 public:
  Leak(sc_core::sc_module_name name, transport::Assembly& fabric, std::int64_t change)
      : Switch(name, fabric.context(), DecodeBy::window), change_(change) {
    fabric.add_device(*this);
  }
  void receive(transport::Transaction& t) override {
    t.payload_bytes += static_cast<Bytes>(change_);
    Switch::receive(t);
  }

 private:
  std::int64_t change_;
};

/// A message through switches that add `changes` to every transaction.
void send_through(const std::vector<std::int64_t>& changes) {
  test::Simulation s;
  std::deque<Leak> leaks;
  const auto link = test::ideal(test::gb(10), Time::ns(50));
  transport::Device* before = &s.node();
  for (const std::int64_t change : changes) {
    Leak& leak = leaks.emplace_back(("leak" + std::to_string(leaks.size())).c_str(), s.fabric, change);
    test::Simulation::join(*before, leak, link, link);
    before = &leak;
  }
  transport::Device& last = s.node();
  for (Leak& leak : leaks) leak.decoder().map(1, PortId(1));  // port 0 leads back
  test::Simulation::join(*before, last, link, link);
  s.send(Time(), 0, 1, 1000);
  sc_core::sc_start();
  s.fabric.expect_settled();
}

}  // namespace

BOOST_AUTO_TEST_CASE(bytes_are_conserved_and_nothing_is_faster_than_alone) {
  const Time rounding = Time::fs(10);  // alone, each stream of a path is rounded up once
  for (std::uint32_t seed = 1; seed <= kNetworks; ++seed) {
    Case c(seed);
    Bytes expected = 0;
    for (int round = 0; round < kRounds; ++round) {
      const std::size_t first = c.net.send_all(c.net.random_traffic(12, 200'000, Time::us(8)), c.next_round());
      c.net.run();
      for (std::size_t i = first; i < c.net.landed.size(); ++i) {
        const transport::Message& m = c.net.wanted()[i];
        BOOST_TEST_REQUIRE((c.net.took[i] + rounding >= c.net.alone[i]), "seed " << seed << ", message " << i);
        expected += m.bytes * c.net.fabric.path(m.source, m.destination, m.traffic_class).lanes[0].hops.size();
      }
    }
    Bytes seen = 0;
    for (const Network::Watched& w : c.net.watched) {
      seen += w.spy->payload_bytes;
      BOOST_TEST_REQUIRE(w.spy->wire_bytes == w.device->port(w.port).counters.wire_bytes);
      BOOST_TEST_REQUIRE(w.spy->credit_bytes == w.spy->wire_bytes);
    }
    BOOST_TEST_REQUIRE(seen == expected, "seed " << seed);
  }
}

BOOST_AUTO_TEST_CASE(the_same_traffic_takes_the_same_time_whenever_it_is) {
  // What a quiet network does next depends on nothing that it did before.
  for (std::uint32_t seed = 1; seed <= kNetworks; ++seed) {
    Case c(seed);
    const std::vector<Network::Shot> traffic = c.net.random_traffic(12, 200'000, Time::us(8));
    std::vector<std::uint64_t> expected;
    for (int round = 0; round < kRounds; ++round) {
      const std::size_t first = c.net.send_all(traffic, c.next_round());
      c.net.run();
      std::vector<std::uint64_t> took;
      for (std::size_t i = first; i < c.net.took.size(); ++i) took.push_back(c.net.took[i].fs());
      if (round == 0) expected = took;
      BOOST_TEST_REQUIRE(took == expected, "seed " << seed << ", round " << round);
      c.net.send_all(c.net.random_traffic(4, 100'000, Time::us(1)), c.next_round());  // something else in between
      c.net.run();
    }
  }
}

BOOST_AUTO_TEST_CASE(a_lone_message_takes_what_the_fabric_says) {
  const Time rounding = Time::fs(10);
  for (std::uint32_t seed = 1; seed <= kNetworks; ++seed) {
    Case c(seed);
    for (int round = 0; round < kRounds; ++round) {
      const std::size_t i = c.net.send_all(c.net.random_traffic(1, 1 << (8 + round), Time::us(1)), c.next_round());
      c.net.run();
      BOOST_TEST((c.net.took[i] <= c.net.alone[i] + rounding && c.net.alone[i] <= c.net.took[i] + rounding),
                 "seed " << seed << ", " << c.net.wanted()[i].bytes << " B: took " << c.net.took[i].fs() << ", said "
                         << c.net.alone[i].fs());
    }
  }
}

BOOST_AUTO_TEST_CASE(what_breaks_an_invariant_is_reported) {
  BOOST_CHECK_NO_THROW(send_through({0, 0}));
  BOOST_CHECK_THROW(send_through({-1}), sc_core::sc_report);     // lost on the way: never delivered
  BOOST_CHECK_THROW(send_through({-1, 1}), sc_core::sc_report);  // lost and made up for
}
