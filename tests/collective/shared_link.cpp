// A link that flows share: closed forms of processor sharing.
#include "collective/shared_link.h"

#include <map>

#include "tests/support/systemc_main.h"

using namespace railyard;

namespace {

/// Runs a link from event to event.
struct Run {
  collective::SharedLink<int, int> link;
  std::map<int, Time> crossed;  ///< by item

  void until(Time end) {
    while (link.next() <= end) {
      const Time now = link.next();
      link.cross(now, [&](int item) { crossed[item] = now; });
    }
  }
  void push(Time now, int flow, std::uint32_t weight, Time takes, int item) {
    until(now);
    link.push(now, flow, weight, takes, item);
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(an_item_alone_takes_its_time) {
  Run run;
  BOOST_TEST((run.link.next() == Time::max()));
  run.push(Time::us(3), 0, 1, Time::us(7), 1);
  run.until(Time::ms(1));
  BOOST_TEST((run.crossed[1] == Time::us(10)));
  BOOST_TEST((run.link.next() == Time::max()));
}

BOOST_AUTO_TEST_CASE(flows_share_from_instant_to_instant) {
  Run run;
  run.push(Time(), 0, 1, Time::us(10), 1);
  run.push(Time::us(4), 1, 1, Time::us(3), 2);  // 6 us of the first are left: both take half until 10 us
  run.until(Time::ms(1));
  BOOST_TEST((run.crossed[2] == Time::us(10)));
  BOOST_TEST((run.crossed[1] == Time::us(13)));
}

BOOST_AUTO_TEST_CASE(items_of_a_flow_follow_each_other) {
  Run run;
  run.push(Time(), 0, 1, Time::us(2), 1);
  run.push(Time(), 0, 1, Time::us(4), 2);
  run.push(Time(), 1, 1, Time::us(4), 3);
  run.until(Time::ms(1));
  BOOST_TEST((run.crossed[1] == Time::us(4)));
  BOOST_TEST((run.crossed[3] == Time::us(8)));
  BOOST_TEST((run.crossed[2] == Time::us(10)));
}

BOOST_AUTO_TEST_CASE(a_heavy_flow_is_several_flows) {
  Run heavy, several;
  heavy.push(Time(), 0, 3, Time::us(5), 1);
  heavy.push(Time(), 1, 1, Time::us(7), 2);
  for (int flow : {0, 2, 3}) several.push(Time(), flow, 1, Time::us(5), flow + 10);
  several.push(Time(), 1, 1, Time::us(7), 2);
  for (Run* run : {&heavy, &several}) run->until(Time::ms(1));
  BOOST_TEST((heavy.crossed[1] == Time::us(20)));
  BOOST_TEST((several.crossed[13] == Time::us(20)));
  BOOST_TEST((heavy.crossed[2] == Time::us(22)));
  BOOST_TEST((several.crossed[2] == Time::us(22)));
}
