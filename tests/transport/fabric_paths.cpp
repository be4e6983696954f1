// One message alone: latencies plus its bytes at the slowest link, to the femtosecond, however it is cut.
#include "tests/support/simulation.h"
#include "tests/support/systemc_main.h"

using namespace railyard;
using test::gb;
using test::ideal;
using test::Simulation;

namespace {

/// node 0 - link - switch - link - ... - node 1, with ample buffers.
struct Line : Simulation {
  Line(const std::vector<transport::LinkDirection>& links, Bytes transaction_bytes) : Simulation(transaction_bytes) {
    transport::Device* at = &node();
    MemoryNode& end = node();
    std::vector<transport::Switch*> made;
    for (std::size_t i = 0; i + 1 < links.size(); ++i) made.push_back(&add_switch());
    for (std::size_t i = 0; i < links.size(); ++i) {
      transport::Device& next = i + 1 < links.size() ? static_cast<transport::Device&>(*made[i]) : end;
      const auto [here, there] = join(*at, next, links[i], links[i]);
      if (i > 0) made[i - 1]->decoder().map(1, here);
      if (i + 1 < links.size()) made[i]->decoder().map(0, there);
      at = &next;
    }
  }
  using MemoryNode = test::MemoryNode;
};

Time sum_of_latencies(const std::vector<transport::LinkDirection>& links) {
  Time sum;
  for (const auto& link : links) sum += link.latency;
  return sum;
}

Time time_of(const std::vector<transport::LinkDirection>& links, Bytes bytes, Bytes transaction_bytes) {
  Line s(links, transaction_bytes);
  s.send(Time::ns(123), 0, 1, bytes);
  s.run();
  BOOST_TEST(s.alone[0].fs() == s.took[0].fs());
  return s.took[0];
}

const std::vector<Bytes> kCuts{64, 1000, 4096, 65'536, 1'000'000, 5'000'000};

}  // namespace

BOOST_AUTO_TEST_CASE(one_two_and_five_hops_at_any_transaction_size) {
  for (const std::size_t hops : {1, 2, 5}) {
    std::vector<transport::LinkDirection> links;
    for (std::size_t i = 0; i < hops; ++i) links.push_back(ideal(gb(50), Time::ns(100 + 7 * i)));
    for (const Bytes cut : kCuts) {
      BOOST_TEST_INFO(hops << " hops, transactions of " << cut);
      BOOST_TEST(time_of(links, 1'000'000, cut).fs() == (sum_of_latencies(links) + Time::us(20)).fs());
    }
  }
}

BOOST_AUTO_TEST_CASE(the_slowest_link_sets_the_time_wherever_it_is) {
  // Without packets a faster output waits for nothing; the first bit is enough.
  for (const std::vector<std::uint64_t>& rates :
       {std::vector<std::uint64_t>{10, 50, 10}, {50, 10, 50}, {10, 20, 50}, {50, 20, 10}, {50, 10, 25, 10, 50}}) {
    std::vector<transport::LinkDirection> links;
    for (const std::uint64_t r : rates) links.push_back(ideal(gb(r), Time::ns(50)));
    for (const Bytes cut : kCuts)
      BOOST_TEST(time_of(links, 1'000'000, cut).fs() == (sum_of_latencies(links) + Time::us(100)).fs());
  }
}

BOOST_AUTO_TEST_CASE(slow_fast_slow_stores_one_packet_where_it_speeds_up) {
  transport::PacketFormat packet;
  packet.max_payload_bytes = 1000;
  packet.overhead_bytes = 24;
  std::vector<transport::LinkDirection> links{ideal(gb(1), Time::ns(10)), ideal(gb(8), Time::ns(20)),
                                              ideal(gb(1), Time::ns(30))};
  for (auto& link : links) link.packet = packet;
  for (const Bytes packets : {1, 2, 7, 50})
    BOOST_TEST(time_of(links, 50'000, packets * 1000).fs() ==
               (Time::ns(60) + Time::ns(1024) + Time::ns(50 * 1024)).fs());
}

BOOST_AUTO_TEST_CASE(fast_slow_fast_hides_the_packet_it_stores) {
  transport::PacketFormat packet;
  packet.max_payload_bytes = 1000;
  packet.overhead_bytes = 24;
  std::vector<transport::LinkDirection> links{ideal(gb(8), Time::ns(10)), ideal(gb(1), Time::ns(20)),
                                              ideal(gb(8), Time::ns(30))};
  for (auto& link : links) link.packet = packet;
  BOOST_TEST(time_of(links, 50'000, 10'000).fs() == (Time::ns(60) + Time::ns(50 * 1024)).fs());
  // Packet by packet the last one is stored whole.
  BOOST_TEST(time_of(links, 50'000, 1000).fs() == (Time::ns(60) + Time::ns(50 * 1024 + 128)).fs());
}

BOOST_AUTO_TEST_CASE(uncontended_time_is_exact_on_packets_and_odd_sizes) {
  transport::PacketFormat packet;
  packet.max_payload_bytes = 256;
  packet.overhead_bytes = 24;
  packet.first_overhead_bytes = 16;
  std::vector<transport::LinkDirection> links{
      ideal(gb(63), Time::ns(110), 65'536, Time::ns(40)), ideal(gb(31), Time::ns(210), 65'536, Time::ns(40)),
      ideal(gb(50), Time::ns(310), 100'000, Time::ns(200)), ideal(gb(63), Time::ns(110))};
  links[2].packet = packet;
  packet.max_payload_bytes = 4096;
  links[0].packet = links[3].packet = packet;
  for (const Bytes bytes : {0, 1, 255, 256, 257, 4096, 12'288, 100'001, 1'000'000})
    for (const Bytes cut : {256, 4096, 5000, 12'288, 65'536}) time_of(links, bytes, cut);
}

BOOST_AUTO_TEST_CASE(automatic_transactions_are_a_quarter_microsecond_in_whole_packets) {
  transport::PacketFormat packet;
  packet.max_payload_bytes = 4096;
  std::vector<transport::LinkDirection> links{ideal(gb(450), Time::ns(10)), ideal(gb(50), Time::ns(10))};
  const auto bytes_of = [&](Bytes buffer) {
    links[1].buffer_bytes = buffer;
    Line s(links, 0);
    return s.fabric.transaction_bytes(s.fabric.path(0, 1, 0));
  };
  BOOST_TEST(bytes_of(0) == 12'480u);      // in 64 B
  BOOST_TEST(bytes_of(40'000) == 9'984u);  // W/4
  links[1].packet = packet;
  BOOST_TEST(bytes_of(0) == 3u * 4096);
  BOOST_TEST(bytes_of(40'000) == 2u * 4096);
  BOOST_TEST(bytes_of(1000) == 4096u);  // the packet wins
}

BOOST_AUTO_TEST_CASE(messages_of_one_queue_pair_keep_their_order_and_follow_without_a_gap) {
  Line s({ideal(gb(50), Time::ns(100)), ideal(gb(50), Time::ns(100))}, 4096);
  for (int i = 0; i < 5; ++i) s.send(Time(), 0, 1, 50'000);
  s.run();
  for (std::size_t i = 0; i < 5; ++i) BOOST_TEST(s.landed[i].fs() == (Time::ns(200) + Time::us(1) * (i + 1)).fs());
}

BOOST_AUTO_TEST_CASE(an_address_that_nobody_mapped_is_an_error) {
  Line s({ideal(gb(50), Time()), ideal(gb(50), Time())}, 4096);
  s.switches[0].decoder().map(1, PortId());
  s.send(Time(), 0, 1, 100);
  BOOST_CHECK_THROW(sc_core::sc_start(), sc_core::sc_report);
}
