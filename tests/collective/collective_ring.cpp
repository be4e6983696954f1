// The ring on ideal links against its closed form, and the bytes it moves.
#include "tests/support/collective_star.h"
#include "tests/support/systemc_main.h"

using namespace railyard;
using collective::Algorithm;
using collective::Operation;
using test::collective_of;
using test::CollectiveStar;
using test::gb;
using test::ideal;

namespace {

constexpr std::uint64_t kRate = 50;  // GB/s
const Time kHop = Time::ns(300);
const Time kAlpha = kHop * 2;  // a switch cuts through: two latencies, one serialisation

transport::LinkDirection link() { return ideal(gb(kRate), kHop); }
Time line(Bytes bytes) { return gb(kRate).time_for(bytes); }

}  // namespace

BOOST_AUTO_TEST_CASE(all_reduce_takes_two_rounds_of_chunk_time_and_latency) {
  constexpr Bytes kChunk = 120'000;
  for (const std::uint32_t n : {2u, 4u, 8u}) {
    for (const Bytes cut : {0, 1000, 8000, 120'000}) {
      CollectiveStar star(n, link(), cut);
      const Time took = star.run_once(collective_of(Operation::all_reduce, Algorithm::ring, n * kChunk));
      BOOST_TEST(took.fs() == ((line(kChunk) + kAlpha) * (2 * (n - 1))).fs(), n << " members, transactions of " << cut);
      for (const Time done : star.done_at) BOOST_TEST((done == took));  // symmetric: nobody is done before the others
    }
  }
}

BOOST_AUTO_TEST_CASE(all_gather_takes_one_round) {
  constexpr Bytes kChunk = 120'000;
  for (const std::uint32_t n : {2u, 4u, 8u}) {
    CollectiveStar star(n, link(), 4000);
    const Time took = star.run_once(collective_of(Operation::all_gather, Algorithm::ring, n * kChunk));
    BOOST_TEST(took.fs() == ((line(kChunk) + kAlpha) * (n - 1)).fs());
  }
}

BOOST_AUTO_TEST_CASE(slices_hide_latency_until_the_line_is_full) {
  // s/B + alpha is 0.6 us plus the slice's time; c/B is 0.24 us, 2.4 us and 24 us: bound by latency, then by the line.
  for (const Bytes chunk : {12'000, 120'000, 1'200'000}) {
    for (const std::uint32_t n : {2u, 4u, 8u}) {
      for (const std::uint32_t slices : {1u, 2u, 3u, 4u, 8u}) {
        CollectiveStar star(n, link(), 500);
        const Time took = star.run_once(collective_of(Operation::all_reduce, Algorithm::ring, n * chunk, slices));
        const Time step = later(line(chunk), line(chunk / slices) + kAlpha);
        BOOST_TEST(took.fs() == (step * (2 * n - 3) + line(chunk) + kAlpha).fs(),
                   "n = " << n << ", chunk of " << chunk << " in " << slices);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(each_dependent_step_costs_the_sms_and_the_launch_comes_once) {
  constexpr Bytes kChunk = 120'000;
  constexpr std::uint32_t n = 4;
  auto spec = collective_of(Operation::all_reduce, Algorithm::ring, n * kChunk);
  spec.launch = Time::us(3);
  spec.cost.step = Time::ns(700);
  CollectiveStar star(n, link(), 4000);
  const Time took = star.run_once(spec);
  const std::uint64_t steps = 2 * (n - 1);
  BOOST_TEST(took.fs() == (spec.launch + (line(kChunk) + kAlpha) * steps + spec.cost.step * (steps + 1)).fs());
}

BOOST_AUTO_TEST_CASE(every_member_sends_and_receives_its_share_over_both_its_link_directions) {
  for (const std::uint32_t n : {2u, 3u, 4u, 8u}) {
    constexpr Bytes kChunk = 30'000;
    CollectiveStar star(n, link(), 4000);
    star.run_once(collective_of(Operation::all_reduce, Algorithm::ring, n * kChunk, 2));
    for (std::uint32_t m = 0; m < n; ++m) {
      BOOST_TEST(star.sent(m) == 2 * (n - 1) * kChunk);
      BOOST_TEST(star.received(m) == 2 * (n - 1) * kChunk);
    }
  }
}

BOOST_AUTO_TEST_CASE(acks_take_the_same_share_of_the_line_in_any_cut) {
  // A ring loads both directions of every link, so that one's acks are the other's delay: PCIe's Ack and UpdateFC.
  auto pcie = link();
  pcie.packet.max_payload_bytes = 256;
  pcie.packet.overhead_bytes = 24;
  pcie.packet.reverse_interval_bytes = 168;
  pcie.packet.reverse_bytes_per_interval = 16;
  constexpr Bytes kChunk = 1 << 20;
  const double wire = kChunk * (280.0 / 256) * (1 + 16.0 / 168);
  const double expected = 6 * (line(static_cast<Bytes>(wire)) + kAlpha).seconds();
  for (const Bytes cut : {256, 512, 1024, 4096, 65'536}) {
    CollectiveStar star(4, pcie, cut);
    const double took = star.run_once(collective_of(Operation::all_reduce, Algorithm::ring, 4 * kChunk)).seconds();
    BOOST_TEST(took == expected, boost::test_tools::tolerance(0.006));
  }
}

BOOST_AUTO_TEST_CASE(uneven_bytes_are_all_moved) {
  // 100 003 bytes over 4 members and 3 slices: nothing divides. Each member skips one chunk per round.
  constexpr std::uint32_t n = 4;
  constexpr Bytes kBytes = 100'003;
  CollectiveStar star(n, link(), 4096);
  star.run_once(collective_of(Operation::all_reduce, Algorithm::ring, kBytes, 3));
  const auto chunk = [](std::uint32_t index) { return collective::Range{0, kBytes}.part(n, index).bytes; };
  Bytes all = 0;
  for (std::uint32_t c = 0; c < n; ++c) all += chunk(c);
  BOOST_TEST(all == kBytes);
  for (std::uint32_t m = 0; m < n; ++m)
    BOOST_TEST(star.sent(m) == 2 * kBytes - chunk((m + 1) % n) - chunk((m + 2) % n));
  CollectiveStar gather(n, link(), 4096);
  gather.run_once(collective_of(Operation::all_gather, Algorithm::ring, kBytes));
  for (std::uint32_t m = 0; m < n; ++m) BOOST_TEST(gather.sent(m) == kBytes - chunk((m + 1) % n));
}

BOOST_AUTO_TEST_CASE(fewer_bytes_than_members) {
  CollectiveStar star(8, link());
  const Time took = star.run_once(collective_of(Operation::all_reduce, Algorithm::ring, 3));
  BOOST_TEST((took >= kAlpha * 14));  // an empty chunk still carries the flag
  BOOST_TEST((took <= kAlpha * 14 + line(1) * 14));
}

BOOST_AUTO_TEST_CASE(one_member_alone_is_done_after_its_launch) {
  auto spec = collective_of(Operation::all_reduce, Algorithm::ring, 1'000'000);
  spec.launch = Time::us(2);
  CollectiveStar star(1, link());
  BOOST_TEST(star.run_once(spec, {Time::us(5)}).fs() == Time::us(7).fs());
  BOOST_TEST(star.sent(0) == 0u);
}

BOOST_AUTO_TEST_CASE(a_late_member_holds_everyone_exactly_that_long) {
  constexpr Bytes kChunk = 120'000;
  for (const std::uint32_t n : {2u, 4u, 8u}) {
    for (const Time late : {Time::us(1), Time::us(100), Time::us(5000)}) {
      for (const std::uint32_t who : {0u, n - 1}) {
        CollectiveStar star(n, link(), 4000);
        std::vector<Time> entries(n);
        entries[who] = late;
        const Time took = star.run_once(collective_of(Operation::all_reduce, Algorithm::ring, n * kChunk), entries);
        BOOST_TEST(took.fs() == (late + (line(kChunk) + kAlpha) * (2 * (n - 1))).fs(),
                   n << " members, " << late.seconds() << " s late");
        for (const Time done : star.done_at) BOOST_TEST((done > late));
        BOOST_TEST((star.ran().first_entry() == Time()));
        BOOST_TEST((star.ran().last_entry() == late));
      }
    }
  }
}
