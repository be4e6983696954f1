// Exchanges of every member with every other one (one-shot, two-shot) on ideal links against its closed form, and the bytes it moves.
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
const Time kAlpha = kHop * 2;

transport::LinkDirection link() { return ideal(gb(kRate), kHop); }
Time line(Bytes bytes) { return gb(kRate).time_for(bytes); }

}  // namespace

BOOST_AUTO_TEST_CASE(one_shot_sends_its_vector_to_everybody) {
  // Every link carries n-1 vectors each way at once: the slots in which peers take turns are permutations, nobody waits.
  constexpr Bytes kVector = 120'000;
  for (const std::uint32_t n : {2u, 4u, 8u}) {
    for (const Bytes cut : {1000, 8000, 120'000}) {
      CollectiveStar star(n, link(), cut);
      const Time took = star.run_once(collective_of(Operation::all_reduce, Algorithm::one_shot, kVector));
      BOOST_TEST(took.fs() == (line(kVector) * (n - 1) + kAlpha).fs(), n << " members, transactions of " << cut);
    }
  }
}

BOOST_AUTO_TEST_CASE(all_reduce_is_two_shots) {
  constexpr Bytes kShard = 120'000;
  for (const std::uint32_t n : {2u, 4u, 8u}) {
    for (const Bytes cut : {1000, 8000, 120'000}) {
      auto spec = collective_of(Operation::all_reduce, Algorithm::two_shot, n * kShard);
      spec.launch = Time::us(4);
      spec.cost.step = Time::ns(900);
      CollectiveStar star(n, link(), cut);
      const Time took = star.run_once(spec);
      const Time shot = line(kShard) * (n - 1) + kAlpha;
      BOOST_TEST(took.fs() == (spec.launch + shot * 2 + spec.cost.step * 3).fs(),
                 n << " members, transactions of " << cut);
    }
  }
}

BOOST_AUTO_TEST_CASE(every_member_sends_and_receives_as_much_as_in_a_ring) {
  for (const std::uint32_t n : {2u, 3u, 4u, 8u}) {
    constexpr Bytes kShard = 30'000;
    CollectiveStar star(n, link(), 4000);
    star.run_once(collective_of(Operation::all_reduce, Algorithm::two_shot, n * kShard));
    for (std::uint32_t m = 0; m < n; ++m) {
      BOOST_TEST(star.sent(m) == 2 * (n - 1) * kShard);
      BOOST_TEST(star.received(m) == 2 * (n - 1) * kShard);
    }
  }
}

BOOST_AUTO_TEST_CASE(uneven_shards_are_all_moved) {
  constexpr std::uint32_t n = 4;
  constexpr Bytes kBytes = 100'003;
  CollectiveStar star(n, link(), 4096);
  star.run_once(collective_of(Operation::all_reduce, Algorithm::two_shot, kBytes));
  for (std::uint32_t m = 0; m < n; ++m) {
    const Bytes own = collective::Range{0, kBytes}.part(n, m).bytes;
    BOOST_TEST(star.sent(m) == kBytes - own + (n - 1) * own);
    BOOST_TEST(star.received(m) == (n - 1) * own + kBytes - own);
  }
}

BOOST_AUTO_TEST_CASE(a_late_member_holds_everyone_exactly_that_long) {
  constexpr Bytes kShard = 120'000;
  for (const std::uint32_t n : {2u, 4u, 8u}) {
    for (const Time late : {Time::us(100), Time::us(5000)}) {
      CollectiveStar star(n, link(), 4000);
      std::vector<Time> entries(n);
      entries[n / 2] = late;
      const Time took = star.run_once(collective_of(Operation::all_reduce, Algorithm::two_shot, n * kShard), entries);
      BOOST_TEST(took.fs() == (late + (line(kShard) * (n - 1) + kAlpha) * 2).fs());
      for (const Time done : star.done_at) BOOST_TEST((done > late));
    }
  }
}

BOOST_AUTO_TEST_CASE(a_pool_reuses_a_collective_that_is_over) {
  // The same object, other sizes and other members: nothing of the first run is left.
  CollectiveStar star(4, link(), 4000);
  const Time first = star.run_once(collective_of(Operation::all_reduce, Algorithm::two_shot, 400'000));
  star.done_at.assign(4, Time::max());
  star.all_done_at = Time::max();
  const Time begun = star.fabric.now();
  const Time second =
      star.run_once(collective_of(Operation::all_reduce, Algorithm::ring, 800'000), std::vector<Time>(4, begun));
  BOOST_TEST((second - begun).fs() == ((line(200'000) + kAlpha) * 6).fs());
  BOOST_TEST((star.ran().first_entry() == first));
}
