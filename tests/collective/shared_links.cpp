// Links that flows share: closed forms of processor sharing on one link, and of max-min rates on several.
#include "collective/shared_links.h"

#include <cmath>
#include <map>
#include <random>

#include "tests/support/systemc_main.h"

using namespace railyard;
using collective::SharedLinks;

namespace {

SharedLinks::Path over(std::uint32_t link, std::uint32_t other = SharedLinks::kNone) {
  return {{{link, SharedLinks::kOwnInput}, {other, SharedLinks::kOwnInput}}};
}

/// Runs links from event to event.
struct Run {
  SharedLinks links;
  std::map<std::uint32_t, Time> crossed;  ///< by item

  explicit Run(std::uint32_t count = 1) { links.clear(count); }
  void until(Time end) {
    while (links.next() <= end) {
      const Time now = links.next();
      links.cross(now, [&](std::uint32_t item) { crossed[item] = now; });
    }
  }
  void push(Time now, std::uint32_t sender, std::uint32_t weight, Time takes, std::uint32_t item,
            const SharedLinks::Path& path = over(0)) {
    until(now);
    links.push(now, sender, path, {{weight, weight}, takes, item});
  }
  bool at(std::uint32_t item, Time expected) const {
    return std::abs(crossed.at(item).seconds() - expected.seconds()) < 1e-14;
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(an_item_alone_takes_its_time) {
  Run run;
  BOOST_TEST((run.links.next() == Time::max()));
  run.push(Time::us(3), 0, 1, Time::us(7), 1);
  run.until(Time::ms(1));
  BOOST_TEST((run.crossed[1] == Time::us(10)));
  BOOST_TEST((run.links.next() == Time::max()));
}

BOOST_AUTO_TEST_CASE(flows_share_from_instant_to_instant) {
  Run run;
  run.push(Time(), 0, 1, Time::us(10), 1);
  run.push(Time::us(4), 1, 1, Time::us(3), 2);  // 6 us of the first are left: both take half until 10 us
  run.until(Time::ms(1));
  BOOST_TEST(run.at(2, Time::us(10)));
  BOOST_TEST(run.at(1, Time::us(13)));
}

BOOST_AUTO_TEST_CASE(items_of_a_flow_follow_each_other) {
  Run run;
  run.push(Time(), 0, 1, Time::us(2), 1);
  run.push(Time(), 0, 1, Time::us(4), 2);
  run.push(Time(), 1, 1, Time::us(4), 3);
  run.until(Time::ms(1));
  BOOST_TEST(run.at(1, Time::us(4)));
  BOOST_TEST(run.at(3, Time::us(8)));
  BOOST_TEST(run.at(2, Time::us(10)));
}

BOOST_AUTO_TEST_CASE(a_heavy_flow_is_several_flows) {
  Run heavy, several;
  heavy.push(Time(), 0, 3, Time::us(5), 1);
  heavy.push(Time(), 1, 1, Time::us(7), 2);
  for (std::uint32_t flow : {0, 2, 3}) several.push(Time(), flow, 1, Time::us(5), flow + 10);
  several.push(Time(), 1, 1, Time::us(7), 2);
  for (Run* run : {&heavy, &several}) run->until(Time::ms(1));
  BOOST_TEST(heavy.at(1, Time::us(20)));
  BOOST_TEST(several.at(13, Time::us(20)));
  BOOST_TEST(heavy.at(2, Time::us(22)));
  BOOST_TEST(several.at(2, Time::us(22)));
}

// Two flows on link 0, one of which shares link 1 with two more: it gets a third of its time there, and leaves two thirds of link 0.
BOOST_AUTO_TEST_CASE(a_flow_leaves_to_others_what_another_link_denies_it) {
  Run run(2);
  run.push(Time(), 0, 1, Time::us(20), 1);
  run.push(Time(), 1, 1, Time::us(30), 2, over(0, 1));
  run.push(Time(), 2, 1, Time::us(40), 3, over(1));
  run.push(Time(), 3, 1, Time::us(40), 4, over(1));
  run.until(Time::ms(1));
  BOOST_TEST(run.at(1, Time::us(30)));  // 20 us at two thirds
  BOOST_TEST(run.at(2, Time::us(90)));
  BOOST_TEST(run.at(3, Time::us(110)));
}

// Three flows on a link, two of them by one input: this input gets half.
BOOST_AUTO_TEST_CASE(a_link_takes_turns_among_inputs) {
  Run run(4);
  for (std::uint32_t f = 0; f < 3; ++f)
    run.push(Time(), f, 1, Time::us(10), f, {{{f + 1, SharedLinks::kOwnInput}, {0, f == 2 ? 1u : 0u}}});
  run.until(Time::ms(1));
  BOOST_TEST(run.at(2, Time::us(20)));
  for (std::uint32_t f = 0; f < 2; ++f) BOOST_TEST(run.at(f, Time::us(30)));
}

// Random flows on random links: no link carries more than its line, and each flow crosses a full link on which none is faster
// (Bertsekas, Gallager: the condition for max-min rates). Rates are read off the crossings of items of one size.
BOOST_AUTO_TEST_CASE(rates_are_max_min) {
  std::mt19937 random(7);
  for (int trial = 0; trial < 200; ++trial) {
    const std::uint32_t links = 2 + random() % 5, flows = 2 + random() % 8;
    std::vector<SharedLinks::Path> paths;
    std::vector<double> rates;
    for (std::uint32_t f = 0; f < flows; ++f) {
      const std::uint32_t from = random() % links, to = (from + 1 + random() % (links - 1)) % links;
      paths.push_back(over(from, to));
    }
    // With work that the others cannot finish before, a flow's rate is its work over its time.
    for (std::uint32_t probe = 0; probe < flows; ++probe) {
      Run run(links);
      for (std::uint32_t f = 0; f < flows; ++f)
        run.push(Time(), f, 1, f == probe ? Time::us(1) : Time::ms(1), f, paths[f]);
      const Time end = run.links.next();
      run.until(end);
      BOOST_REQUIRE(run.crossed.count(probe));
      rates.push_back(1e-6 / run.crossed[probe].seconds());
    }
    for (std::uint32_t f = 0; f < flows; ++f) {
      bool limited = false;
      for (const auto& [link, input] : paths[f]) {
        double sum = 0, fastest = 0;
        for (std::uint32_t g = 0; g < flows; ++g) {
          if (paths[g][0].link != link && paths[g][1].link != link) continue;
          sum += rates[g];
          fastest = std::max(fastest, rates[g]);
        }
        BOOST_TEST(sum < 1 + 1e-6);
        limited = limited || (sum > 1 - 1e-6 && fastest < rates[f] + 1e-6);
      }
      BOOST_TEST(limited);
    }
  }
}
