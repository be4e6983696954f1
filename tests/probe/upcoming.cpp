// What is to happen later comes up by time, then by posting, against an ordered map.
#define BOOST_TEST_MODULE upcoming
#include "probe/upcoming.h"

#include <boost/test/unit_test.hpp>
#include <map>
#include <random>

using namespace railyard;

namespace {

struct Item {
  Item(Time at, int what) : when(at), number(what) {}
  Time when;
  int number;
};

/// Posts and takes at random, `reach_fs` ahead and less; what is taken must be what the map has first.
void check(std::uint64_t reach_fs, std::uint64_t step_fs, unsigned most_at_once) {
  BOOST_TEST_CONTEXT("reach " << reach_fs << " step " << step_fs << " at once " << most_at_once) {
    probe::Upcoming<Item> upcoming;
    std::multimap<std::uint64_t, int> expected;  // keeps the order of insertion among equals
    std::mt19937_64 random(reach_fs + most_at_once);
    std::uint64_t now = 0;
    int posted = 0, taken = 0;
    const auto take_all = [&] {
      for (const Item* item; (item = upcoming.due(Time::fs(now))) != nullptr; ++taken) {
        BOOST_TEST_REQUIRE(!expected.empty());
        BOOST_TEST_REQUIRE(item->when.fs() == expected.begin()->first);
        BOOST_TEST_REQUIRE(item->number == expected.begin()->second);
        BOOST_TEST_REQUIRE(item->when.fs() <= now);
        expected.erase(expected.begin());
        upcoming.pop();
      }
      BOOST_TEST_REQUIRE((expected.empty() || expected.begin()->first > now));
    };
    for (int i = 0; i < 20'000; ++i) {
      now += random() % (step_fs + 1);
      take_all();
      const std::uint64_t when = now + random() % (reach_fs + 1);
      for (std::uint64_t copies = random() % (most_at_once + 1); copies > 0; --copies) {
        expected.emplace(when, posted);
        upcoming.post(Time::fs(when), posted++);
      }
    }
    now += reach_fs;
    take_all();
    BOOST_TEST(taken == posted);
    BOOST_TEST(upcoming.due(Time::max()) == nullptr);
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(what_waits_comes_in_order_of_time_then_posting) {
  check(3, 1, 3);                                   // neighbours
  check(5'000, 100, 2);                             // picoseconds
  check(2'000'000'000, 75'000'000, 4);              // microseconds ahead, as links do
  check(2'000'000'000, 1'000, 3);                   // crowded: far more than is sorted at once
  check(5'000'000'000'000'000, 10'000'000'000, 2);  // seconds
  check(100'000'000, 50'000'000, 200);              // many of one instant
}
