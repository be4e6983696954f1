// Links that are lost during a run: what was on them, what waited for them, what takes another way and what cannot.
#include "tests/support/leaf_spine.h"
#include "tests/support/systemc_main.h"
#include "transport/faults.h"
#include "transport/recovery.h"

#include <random>

using namespace railyard;
using namespace railyard::test;
using infiniband::Routing;
using transport::LinkEnd;
namespace tt = boost::test_tools;

namespace {

LeafSpine::Shape network(std::uint32_t nics_per_node = 1) {
  LeafSpine::Shape shape;
  shape.pcie = ideal(gb(64), Time::ns(100), 60'000, Time::ns(100));
  shape.cable = shape.between = ideal(gb(50), Time::ns(300), 60'000, Time::ns(300));
  shape.nic.doorbell = shape.nic.transmit = Time::ns(100);
  shape.nic.read_bytes = shape.nic.buffer_bytes = 80'000;
  shape.nics_per_node = nics_per_node;
  return shape;
}

Bytes sent(const LinkEnd& end) { return end.state().counters.payload_bytes; }
Bytes lost(const LinkEnd& end) { return end.state().counters.lost_bytes; }

/// Payload that reached the NICs from the network, sent and not lost on the way.
Bytes into_nics(LeafSpine& s) {
  Bytes bytes = 0;
  for (std::uint32_t n = 0; n < s.nics.size(); ++n)
    bytes += sent(LeafSpine::back(s.cable(n))) - lost(LeafSpine::back(s.cable(n)));
  return bytes;
}

}  // namespace

BOOST_AUTO_TEST_CASE(trains_on_a_lost_link_are_lost_and_the_rest_never_leaves) {
  // Trains of 10 kB take 200 ns and arrive 300 ns later. At 10.15 us number 49 is there and number 50 is on the way.
  Simulation s(10'000);
  s.node();
  s.node();
  const transport::LinkDirection link = ideal(gb(50), Time::ns(300), 100'000, Time::ns(300));
  Simulation::join(s.nodes[0], s.nodes[1], link, link);
  const LinkEnd end{&s.nodes[0], PortId(0)};
  s.fabric.faults().fail(Time::ns(10'150), {end});
  s.send(Time(), 0, 1, 1'000'000);
  s.send(Time::us(20), 0, 1, 5'000);  // finds no way
  s.send(Time::us(20), 1, 0, 5'000);  // the other direction is there
  s.run();                            // every credit is home
  BOOST_TEST(sent(end) == 510'000u);
  BOOST_TEST(lost(end) == 10'000u);
  BOOST_TEST(s.undeliverable.at(0) == 500'000u);
  BOOST_TEST(s.undeliverable.at(1) == 5'000u);
  BOOST_TEST((s.landed[2] != Time::max()));
  const auto& first = s.fabric.recovery().undeliverable();
  BOOST_TEST_REQUIRE(first.has_value());
  BOOST_TEST((first->at == Time::ns(10'150)));
  BOOST_TEST((first->source == 0 && first->destination == 1));
  BOOST_TEST(first->bytes == 1'000'000u);
  BOOST_TEST(s.fabric.recovery().lost_bytes() == 505'000u);
}

BOOST_AUTO_TEST_CASE(a_link_that_is_lost_after_the_end_changes_nothing) {
  const auto run = [](bool loses) {
    LeafSpine s(network(), Routing::deterministic, 4096);
    if (loses) s.lose(Time::ms(1), s.up(0, 0));
    s.send(Time(), 0, 2, 1'000'000);
    s.send(Time::us(1), 1, 3, 300'000);
    s.send(Time::us(2), 3, 1, 300'000);
    s.run();
    std::vector<std::uint64_t> times;
    for (const Time t : s.landed) times.push_back(t.fs());
    return times;
  };
  BOOST_TEST(run(true) == run(false), tt::per_element());
}

BOOST_AUTO_TEST_CASE(traffic_takes_the_other_spine) {
  for (const Routing routing : {Routing::deterministic, Routing::ecmp, Routing::adaptive}) {
    // The way up from the sender's leaf, or the way down to the receiver's: the sender's leaf must know of both.
    for (const bool far : {false, true}) {
      for (std::uint32_t spine = 0; spine < 2; ++spine) {
        LeafSpine s(network(), routing, 4096);
        const LinkEnd link = s.up(far ? 1 : 0, spine);
        s.lose(Time::us(5), link);
        s.send(Time(), 0, 2, 1'000'000);
        s.send(Time::us(10), 1, 3, 1'000'000);
        s.run();
        BOOST_TEST(s.landed.size() == 2u);
        BOOST_TEST(s.undeliverable.empty());
        BOOST_TEST(into_nics(s) == 2'000'000u);
        const Bytes gone =
            lost(s.up(0, 0)) + lost(s.up(0, 1)) + lost(LeafSpine::back(s.up(1, 0))) + lost(LeafSpine::back(s.up(1, 1)));
        BOOST_TEST(s.fabric.recovery().lost_bytes() >= gone);
        // Every train from the sender reached its leaf, what was lost twice.
        BOOST_TEST(sent(s.cable(0)) + sent(s.cable(1)) == 2'000'000u + s.fabric.recovery().lost_bytes());
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(reads_take_the_other_spine) {
  for (const std::uint32_t leaf : {0, 1}) {  // above the reader, or above the memory
    for (std::uint32_t spine = 0; spine < 2; ++spine) {
      LeafSpine s(network(), Routing::deterministic, 4096);
      s.lose(Time::us(5), s.up(leaf, spine));
      transport::Message message;
      message.kind = transport::MessageKind::read;
      message.destination = 2;
      message.bytes = 1'000'000;
      s.send(Time(), message);
      s.send(Time::us(10), message);
      s.run();
      BOOST_TEST(s.undeliverable.empty());
      BOOST_TEST((s.landed[0] != Time::max() && s.landed[1] != Time::max()));
    }
  }
}

BOOST_AUTO_TEST_CASE(a_leaf_that_is_cut_off_is_an_error_for_its_traffic_only) {
  LeafSpine::Shape shape = network();
  shape.leaves = 3;
  LeafSpine s(shape, Routing::ecmp, 4096);
  for (std::uint32_t spine = 0; spine < 2; ++spine) s.lose(Time::us(5), s.up(1, spine));
  s.send(Time(), 0, 2, 1'000'000);
  s.send(Time(), 1, 4, 1'000'000);
  s.send(Time(), 2, 3, 1'000'000);  // below the leaf itself
  s.run();
  BOOST_TEST(s.undeliverable.size() == 1u);
  BOOST_TEST(s.undeliverable.count(0) == 1u);
}

BOOST_AUTO_TEST_CASE(another_nic_takes_over) {
  // A cable or a NIC's PCIe link is lost, at the source or at the destination: reads, buffers and tags come home, too.
  for (const std::uint32_t nic : {0u, 4u}) {
    for (const bool cable : {true, false}) {
      LeafSpine s(network(2), Routing::deterministic, 4096);
      s.lose(Time::us(8), cable ? s.cable(nic) : s.pcie(nic));
      s.send(Time(), 0, 2, 1'000'000);
      s.send(Time::us(3), 0, 2, 200'000, 0, 1);
      s.send(Time::us(50), 0, 2, 1'000'000);
      s.run();
      BOOST_TEST(s.undeliverable.empty());
      const LinkEnd to_memory = LeafSpine::back({&s.nodes[2], PortId(0)});
      BOOST_TEST(sent(to_memory) == 2'200'000u);
      BOOST_TEST(sent(s.cable(0)) + sent(s.cable(1)) >= 2'200'000u);
      BOOST_TEST((nic == 0 ? sent(s.cable(1)) : sent(LeafSpine::back(s.cable(5)))) > 1'500'000u);
      BOOST_TEST(s.took[2].fs() == s.alone[2].fs(), tt::tolerance(0.001));
    }
  }
}

BOOST_AUTO_TEST_CASE(whatever_is_lost_bytes_are_delivered_once_or_known_to_be_undeliverable) {
  std::size_t landed = 0, cut_off = 0;
  for (std::uint32_t seed = 1; seed <= 40; ++seed) {
    BOOST_TEST_INFO("seed " << seed);
    std::mt19937_64 random(seed);
    LeafSpine::Shape shape = network(1 + seed % 2);
    shape.leaves = 3;
    LeafSpine s(shape, static_cast<Routing>(seed % 3), seed % 4 == 0 ? 1'000 : 4096);
    const auto instant = [&] { return Time::fs(random() % Time::us(30).fs()); };
    for (std::uint32_t k = 0; k < 1 + seed % 6; ++k) {
      const std::uint64_t which = random() % 4;
      const auto nic = static_cast<std::uint32_t>(random() % s.nics.size());
      if (which < 2)
        s.lose(instant(), s.up(static_cast<std::uint32_t>(random() % 3), static_cast<std::uint32_t>(random() % 2)));
      if (which == 2) s.lose(instant(), s.cable(nic));
      if (which == 3) s.lose(instant(), s.pcie(nic));
    }
    for (int m = 0; m < 60; ++m) {
      const auto from = static_cast<transport::Window>(random() % 6);
      const auto to = static_cast<transport::Window>((from + 1 + random() % 5) % 6);
      s.send(instant(), from, to, random() % 5 == 0 ? 0 : random() % 60'000, 0,
             static_cast<std::uint32_t>(random() % 3));
    }
    s.run();  // every credit and every transaction is home
    landed += s.landed.size() - s.undeliverable.size();
    cut_off += s.undeliverable.size();
    Bytes in_memories = 0, wanted = 0;
    for (test::MemoryNode& node : s.nodes)
      in_memories += sent(LeafSpine::back({&node, PortId(0)})) - lost(LeafSpine::back({&node, PortId(0)}));
    for (const transport::Message& m : s.wanted()) wanted += m.bytes;
    Bytes given_up = 0;
    for (const auto& [number, bytes] : s.undeliverable) given_up += std::min(bytes, s.wanted()[number].bytes);
    BOOST_TEST(in_memories + given_up == wanted);
  }
  BOOST_TEST(landed > 1000u);
  BOOST_TEST(cut_off > 50u);
}

BOOST_AUTO_TEST_CASE(the_same_losses_give_the_same_times) {
  const auto run = [] {
    LeafSpine s(network(2), Routing::adaptive, 4096);
    s.lose(Time::us(5), s.up(0, 1));
    s.lose(Time::us(9), s.cable(0));
    for (std::uint32_t m = 0; m < 12; ++m) s.send(Time::ns(500 * m), m % 4, (m + 2) % 4, 200'000);
    s.run();
    std::vector<std::uint64_t> times;
    for (const Time t : s.landed) times.push_back(t.fs());
    return times;
  };
  BOOST_TEST(run() == run(), tt::per_element());
}
