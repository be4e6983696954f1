// The small parts that the fabric is made of.
#define BOOST_TEST_MODULE fabric_parts
#include <boost/test/unit_test.hpp>
#include <random>
#include <set>
#include <vector>

#include "transport/link/byte_clock.h"
#include "transport/link/credit_window.h"
#include "transport/link/link.h"
#include "transport/link/requesters.h"
#include "transport/link/ring.h"

using namespace railyard;
using namespace railyard::transport;

BOOST_AUTO_TEST_CASE(byte_clock_adds_up_to_the_exact_time_rounded_up) {
  std::mt19937_64 random(1);
  for (const std::uint64_t rate :
       {1ull, 7ull, 900'000'000'000ull, 450'000'000'000ull, 63'015'380'000ull, 333'333'333'333ull}) {
    ByteClock clock{Rate::bytes_per_second(rate)};
    std::uint64_t bytes = 0;
    Time sum;
    for (int i = 0; i < 2000; ++i) {
      const Bytes more = rate < 10 ? random() % 3 : random() % 70'000;
      bytes += more;
      sum += clock.advance(more);
      BOOST_TEST_REQUIRE(sum.fs() == Rate::bytes_per_second(rate).time_for(bytes).fs());
    }
  }
}

BOOST_AUTO_TEST_CASE(byte_clock_forgets_what_is_owed_over_a_gap) {
  ByteClock clock{Rate::bytes_per_second(3'000'000'000'000'000ull)};  // a third of a femtosecond per byte
  BOOST_TEST(clock.advance(1).fs() == 1u);
  BOOST_TEST(clock.advance(1).fs() == 0u);
  clock.reset();
  BOOST_TEST(clock.advance(1).fs() == 1u);
  BOOST_TEST(clock.time_for(4).fs() == 2u);  // alone, and without effect on the stream
  BOOST_TEST(clock.advance(2).fs() == 0u);
  BOOST_TEST(clock.advance(1).fs() == 1u);
}

BOOST_AUTO_TEST_CASE(byte_clock_holds_a_terabyte_at_the_slowest_link) {
  const Rate slow = Rate::bytes_per_second(1'000'000'000);
  ByteClock clock{slow};
  BOOST_TEST(clock.advance(1'000'000'000'000ull).fs() == Time::ms(1'000'000).fs());
}

BOOST_AUTO_TEST_CASE(credit_window_tells_the_instant_exactly) {
  CreditWindow window;
  BOOST_TEST(window.below(100, Time::ns(1)).fs() == Time::ns(1).fs());
  window.take(100);
  BOOST_TEST((window.below(100, Time::ns(1)) == Time::max()));
  window.give_back(Time::ns(7), 30);
  BOOST_TEST(window.below(100, Time::ns(1)).fs() == Time::ns(7).fs());
  BOOST_TEST(window.below(100, Time::ns(7) - Time::fs(1)).fs() == Time::ns(7).fs());
  BOOST_TEST(window.below(100, Time::ns(7)).fs() == Time::ns(7).fs());
  BOOST_TEST(window.outstanding() == 70u);
  BOOST_TEST((window.below(70, Time::ns(8)) == Time::max()));
  BOOST_TEST(window.below(71, Time::ns(8)).fs() == Time::ns(8).fs());
}

BOOST_AUTO_TEST_CASE(credit_window_sorts_returns_that_overtake) {
  CreditWindow window;
  window.take(60);
  window.give_back(Time::ns(30), 10);
  window.give_back(Time::ns(10), 20);
  window.give_back(Time::ns(20), 30);
  BOOST_TEST(window.unreturned() == 0u);
  BOOST_TEST(window.below(41, Time()).fs() == Time::ns(10).fs());
  BOOST_TEST(window.below(40, Time()).fs() == Time::ns(20).fs());
  BOOST_TEST(window.below(10, Time()).fs() == Time::ns(30).fs());
  BOOST_TEST(window.outstanding() == 60u);  // looking ahead takes nothing
}

const auto kAlike = [](std::uint32_t) { return Bytes(1); };

BOOST_AUTO_TEST_CASE(requester_set_is_fair_in_bytes_when_trains_differ) {
  // Trains of 12, 8 and 1 bytes, always more of each: the same bytes for everybody, to within the largest train.
  const std::vector<Bytes> train{12, 8, 1};
  std::vector<Bytes> sent(train.size(), 0);
  RequesterSet set;
  for (std::uint32_t r = 0; r < train.size(); ++r) set.insert(r);
  const auto bytes_of = [&](std::uint32_t r) { return train[r]; };
  for (int i = 0; i < 6000; ++i) {
    const std::uint32_t r = set.next(bytes_of);
    set.erase(r);
    set.served(r, train[r]);
    set.insert(r, true);
    sent[r] += train[r];
  }
  BOOST_TEST(sent[0] - sent[1] + 24 <= 48u);
  BOOST_TEST(sent[0] - sent[2] + 24 <= 48u);
}

BOOST_AUTO_TEST_CASE(requester_set_takes_turns_over_words) {
  RequesterSet set;
  const std::set<std::uint32_t> members{0, 1, 63, 64, 65, 127, 128, 300};
  for (const std::uint32_t m : members) set.insert(m);
  BOOST_TEST(set.size() == members.size());
  for (int round = 0; round < 3; ++round) {
    for (const std::uint32_t m : members) {
      BOOST_TEST(set.next(kAlike) == m);
      set.served(m, 1);
    }
  }
  set.erase(0);
  set.served(300, 1);
  BOOST_TEST(set.next(kAlike) == 1u);
  for (const std::uint32_t m : members)
    if (m != 0) set.erase(m);
  BOOST_TEST(set.empty());
}

BOOST_AUTO_TEST_CASE(requester_set_resumes_after_the_one_served_even_when_it_left) {
  RequesterSet set;
  set.insert(2);
  set.insert(5);
  set.served(2, 1);
  set.erase(2);
  set.insert(1);
  BOOST_TEST(set.next(kAlike) == 5u);
  set.served(700, 1);  // beyond every word
  BOOST_TEST(set.next(kAlike) == 1u);
}

BOOST_AUTO_TEST_CASE(ring_keeps_order_while_it_grows_and_wraps) {
  Ring<int> ring;
  std::vector<int> mirror;
  std::mt19937 random(7);
  int next = 0;
  std::size_t front = 0;
  for (int i = 0; i < 5000; ++i) {
    if (random() % 5 < 3 || front == mirror.size()) {
      ring.push_back(next);
      mirror.push_back(next++);
    } else {
      BOOST_TEST_REQUIRE(ring.front() == mirror[front++]);
      ring.pop_front();
    }
    BOOST_TEST_REQUIRE(ring.size() == mirror.size() - front);
    for (std::size_t k = 0; k < ring.size(); k += 97) BOOST_TEST_REQUIRE(ring[k] == mirror[front + k]);
  }
}

BOOST_AUTO_TEST_CASE(packets_cost_what_the_format_says) {
  PacketFormat format;
  format.max_payload_bytes = 256;
  format.overhead_bytes = 24;
  format.first_overhead_bytes = 16;
  format.reverse_bytes_per_packet = 8;
  const WireCost one = format.cost(TransactionKind::write, 256, 0, false);
  BOOST_TEST(one.bytes == 280u);
  BOOST_TEST(one.first_packet == 280u);
  BOOST_TEST(one.reverse_debt == 8u);
  const WireCost two = format.cost(TransactionKind::write, 257, 0, true);
  BOOST_TEST(two.bytes == 257u + 48 + 16);
  BOOST_TEST(two.first_packet == 256u + 24 + 16);
  BOOST_TEST(two.reverse_debt == 16u);
  BOOST_TEST(format.cost(TransactionKind::write, 256, 128, false).bytes == 256u + 48);   // a smaller engine
  BOOST_TEST(format.cost(TransactionKind::write, 256, 4096, false).bytes == 256u + 24);  // a larger one does not help
  BOOST_TEST(format.cost(TransactionKind::write, 0, 0, false).bytes == 24u);             // an empty message is a header
  BOOST_TEST(PacketFormat().cost(TransactionKind::write, 0, 0, false).bytes == 1u);
}

BOOST_AUTO_TEST_CASE(packets_share_acks_and_the_line_with_the_data_link_layer) {
  PacketFormat format;
  format.max_payload_bytes = 256;
  format.overhead_bytes = 16;
  format.max_read_request_bytes = 2048;
  format.read_request_bytes = 16;
  format.response_payload_bytes = 128;
  format.response_overhead_bytes = 16;
  format.reduced_payload_bytes = 64;
  format.reverse_bytes_per_packet = 16;
  format.packets_per_ack = 4;
  BOOST_TEST(format.cost(TransactionKind::write, 4096, 0, false).reverse_debt == 16u / 4 * 16);
  BOOST_TEST(format.cost(TransactionKind::write, 4096, 128, false).reverse_debt == 32u / 4 * 16);
  BOOST_TEST(format.cost(TransactionKind::multicast, 4096, 0, false).reverse_debt == 16u * 16);  // one each
  BOOST_TEST(format.cost(TransactionKind::multicast, 4096, 0, false).bytes ==
             format.cost(TransactionKind::write, 4096, 0, false).bytes);
  BOOST_TEST(format.cost(TransactionKind::read_request, 4096, 0, false).bytes == 2u * 16);
  BOOST_TEST(format.cost(TransactionKind::read_request, 4096, 128, false).bytes ==
             32u * 16);  // an engine that asks for less at once
  BOOST_TEST(format.cost(TransactionKind::reduce_request, 4096, 128, false).bytes == 32u * 16);
  BOOST_TEST(format.cost(TransactionKind::read_response, 4096, 0, false).bytes == 4096u + 32 * 16);
  BOOST_TEST(format.cost(TransactionKind::reduce_response, 4096, 0, false).bytes == 4096u + 64 * 16);
  // A read's data is its own answer.
  for (const TransactionKind op : {TransactionKind::read_request, TransactionKind::read_response,
                                   TransactionKind::reduce_request, TransactionKind::reduce_response})
    BOOST_TEST(format.cost(op, 4096, 0, false).reverse_debt == 0u);

  const Bytes bare = format.cost(TransactionKind::write, 4096, 0, false).bytes;
  format.line_interval_bytes = 8 * 16;
  format.line_bytes_per_interval = 16;
  const WireCost shared = format.cost(TransactionKind::write, 4096, 0, false);
  BOOST_TEST(shared.bytes == bare + bare / 8);
  BOOST_TEST(shared.first_packet == 272u + 272 / 8);
  BOOST_TEST(shared.reverse_debt == 64u + 64 / 8);
}
