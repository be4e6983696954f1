// The port rule at its edges, without a kernel: every "may start" is refused one femtosecond before and accepted on the
// tick.
#define BOOST_TEST_MODULE port_rule
#include <boost/test/unit_test.hpp>
#include <map>
#include <vector>

#include "transport/link/egress_port.h"

using namespace railyard;
using namespace railyard::transport;

namespace {

constexpr Time kFs = Time::fs(1);

Rate gb(std::uint64_t gb_per_s) { return Rate::bytes_per_second(gb_per_s * 1'000'000'000ull); }

LinkDirection link(Rate rate, Time latency, Bytes buffer = 0, Time credit_latency = Time()) {
  LinkDirection l;
  l.rate = rate;
  l.latency = latency;
  l.buffer_bytes = buffer;
  l.credit_latency = credit_latency;
  return l;
}

VcPlan plan_with(std::initializer_list<ClassSpec> classes) {
  VcPlan plan;
  std::size_t n = 0;
  for (const ClassSpec& spec : classes) plan.assign(n++, spec);
  return plan;
}

/// A port and what waits for it: trains of known wire bytes, by (virtual channel, requester).
struct Bench {
  explicit Bench(const LinkDirection& l, const VcPlan& plan = {}) : kind(l, plan) {}

  void offer(std::uint8_t vc, std::uint32_t requester, Bytes wire_bytes, Time tail = Time(), Bytes packet = 0,
             Bytes packets = 0) {
    waiting[{vc, requester}] = {{wire_bytes, packet, 0, wire_bytes, packets}, tail};
    port.add(vc, requester, Time());
  }
  EgressPort::Choice ask(Time now) {
    clock = now;
    return port.choose(now, [&](std::uint8_t vc, std::uint32_t requester) -> const WireCost& {
      return waiting.at({vc, requester}).cost;
    });
  }
  /// Starts what is chosen at `now`; it must exist.
  Crossing go(Time now) {
    last = ask(now);
    BOOST_TEST_REQUIRE(last.found);
    const Train train = waiting.at({last.vc, last.requester});
    waiting.erase({last.vc, last.requester});
    port.remove(last, now);
    return port.start(last.vc, now, train.cost, train.tail);
  }
  /// Not before `when`, and then.
  Crossing go_exactly_at(Time when) {
    const EgressPort::Choice early = ask(when - kFs);
    BOOST_TEST(!early.found);
    BOOST_TEST(early.retry.fs() == when.fs());
    return go(when);
  }

  struct Train {
    WireCost cost;
    Time tail;
  };
  PortKind kind;
  EgressPort port{kind};
  Time clock;
  std::map<std::pair<std::uint8_t, std::uint32_t>, Train> waiting;
  EgressPort::Choice last;
};

}  // namespace

BOOST_AUTO_TEST_CASE(line_is_free_after_the_charge_not_before) {
  Bench b(link(gb(1), Time::ns(100)));
  b.offer(0, 0, 1000);
  b.offer(0, 1, 500);
  const Crossing first = b.go(Time::ns(50));
  BOOST_TEST(first.head.fs() == Time::ns(150).fs());
  BOOST_TEST(first.leaves.fs() == Time::ns(1050).fs());
  BOOST_TEST(first.tail.fs() == Time::ns(1150).fs());
  BOOST_TEST(first.line_free.fs() == Time::ns(1050).fs());
  const Crossing second = b.go_exactly_at(Time::ns(1050));
  BOOST_TEST(second.tail.fs() == Time::ns(1650).fs());
}

BOOST_AUTO_TEST_CASE(a_trickling_tail_arrives_late_but_charges_line_time_only) {
  Bench b(link(gb(8), Time::ns(10)));
  b.offer(0, 0, 800, Time::ns(800));  // its tail comes in at rate 1
  b.offer(0, 1, 800);
  const Crossing slow = b.go(Time());
  BOOST_TEST(slow.tail.fs() == Time::ns(810).fs());
  BOOST_TEST(slow.line_free.fs() == Time::ns(100).fs());
  const Crossing fast = b.go_exactly_at(Time::ns(100));
  BOOST_TEST(fast.tail.fs() == Time::ns(210).fs());
}

BOOST_AUTO_TEST_CASE(credit_is_usable_one_credit_latency_after_its_tail_left) {
  // W = 1000 B at 1 GB/s and RTT 1000 ns: pace and credit agree, so take trains of W and let the receiver keep them
  // longer.
  Bench b(link(gb(1), Time::ns(600), 1000, Time::ns(400)));
  for (std::uint32_t n = 0; n < 3; ++n) b.offer(0, n, 1000);
  b.go(Time());
  b.go_exactly_at(Time::ns(1000));  // outstanding 1000 <= W before it: allowed; 2000 after it
  const EgressPort::Choice none = b.ask(Time::us(3));
  BOOST_TEST(!none.found);
  BOOST_TEST((none.retry == Time::max()));  // only a credit can help, and none is under way
  BOOST_TEST(b.port.starved(0));
  BOOST_TEST(!b.port.starved(0));  // told once
  BOOST_TEST(b.port.credit(0, 1000, 0, Time::us(4)).fs() == Time::ns(4400).fs());
  b.go_exactly_at(Time::ns(4400));
  BOOST_TEST(b.port.unreturned(0) == 2000u);
  b.port.credit(0, 1000, 0, Time::us(5));
  b.port.credit(0, 1000, 0, Time::us(5));
  BOOST_TEST(b.port.unreturned(0) == 0u);
}

BOOST_AUTO_TEST_CASE(a_small_window_paces_its_channel_at_window_over_round_trip) {
  // W/RTT = 500 B/us against a line of 1 GB/s = 1000 B/us.
  Bench b(link(gb(1), Time::ns(700), 500, Time::ns(300)));
  b.offer(0, 0, 100);
  b.offer(0, 1, 100);
  const Crossing first = b.go(Time());
  BOOST_TEST(first.tail.fs() == Time::ns(200 + 700).fs());
  BOOST_TEST(first.line_free.fs() == Time::ns(100).fs());
  b.go_exactly_at(Time::ns(200));
}

BOOST_AUTO_TEST_CASE(pace_of_one_channel_leaves_the_line_to_another) {
  Bench b(link(gb(1), Time::ns(700), 500, Time::ns(300)));
  b.offer(0, 0, 100);
  b.go(Time());
  b.offer(0, 1, 100);
  b.offer(1, 0, 100);
  b.go_exactly_at(Time::ns(100));
  BOOST_TEST(b.last.vc == 1);
  b.go_exactly_at(Time::ns(200));
  BOOST_TEST(b.last.vc == 0);
}

BOOST_AUTO_TEST_CASE(a_channel_without_credit_never_holds_the_port) {
  Bench b(link(gb(1), Time::ns(1), 1000, Time::ns(1)), plan_with({{0, 1, 0}, {1, 1, 3}}));
  for (std::uint32_t n = 0; n < 3; ++n) b.offer(1, n, 1000);
  b.offer(0, 0, 1000);
  b.go(Time());
  b.go(Time::us(1));
  BOOST_TEST(b.last.vc == 1);
  b.go(Time::us(2));  // the high priority has 2000 B outstanding and no credit
  BOOST_TEST(b.last.vc == 0);
}

BOOST_AUTO_TEST_CASE(a_higher_priority_waits_for_the_packet_boundary_only) {
  Bench b(link(gb(1), Time()), plan_with({{0, 1, 0}, {1, 1, 1}}));
  b.offer(0, 0, 64'000, Time(), 1000);
  b.go(Time());
  b.offer(1, 0, 500, Time(), 500);
  BOOST_TEST(b.ask(Time::ns(1001)).retry.fs() == Time::ns(2000).fs());
  const Crossing high = b.go_exactly_at(Time::ns(2000));
  BOOST_TEST(high.tail.fs() == Time::ns(2500).fs());
  BOOST_TEST(b.port.free(0).fs() == Time::ns(64'500).fs());  // what it took is charged to the lower one
  BOOST_TEST(b.port.free(1).fs() == Time::ns(2500).fs());
}

BOOST_AUTO_TEST_CASE(an_interrupted_train_goes_on_packet_by_packet_after_the_interruption) {
  Bench b(link(gb(1), Time()), plan_with({{0, 1, 0}, {1, 1, 1}, {2, 1, 2}}));
  b.offer(0, 0, 64'000, Time(), 1000);
  b.go(Time());
  b.offer(1, 0, 700, Time(), 300);
  b.go_exactly_at(Time::ns(1000));  // 1000..1700, then the low train's second packet
  b.offer(1, 1, 500, Time(), 500);
  b.go_exactly_at(Time::ns(1700));  // at once behind it: the low train has not resumed
  b.offer(1, 2, 500, Time(), 500);
  BOOST_TEST(b.ask(Time::ns(2201)).retry.fs() == Time::ns(3200).fs());  // resumed at 2200
  b.go_exactly_at(Time::ns(3200));
  b.offer(1, 3, 4000, Time(), 400);
  b.go_exactly_at(Time::ns(3700));
  b.offer(2, 0, 100, Time(), 100);
  b.go_exactly_at(Time::ns(4100));  // the middle one's packet, not the low one's and not the whole train
}

BOOST_AUTO_TEST_CASE(first_packet_is_whole_after_its_own_time) {
  Bench b(link(gb(1), Time::ns(10)));
  b.offer(0, 0, 64'000, Time(), 1000);
  BOOST_TEST(b.go(Time()).first_packet.fs() == Time::ns(1010).fs());
  // A train shorter than a packet: when its tail is there.
  b.offer(0, 0, 200, Time(), 1000);
  BOOST_TEST(b.go(Time::us(64)).first_packet.fs() == Time::ns(64'210).fs());
}

BOOST_AUTO_TEST_CASE(weights_share_wire_bytes) {
  const std::vector<std::vector<Bytes>> sizes{{1000, 1000}, {4000, 300}, {300, 4000}, {1, 65'536}};
  for (const auto& size : sizes) {
    Bench b(link(gb(1), Time()), plan_with({{0, 1, 0}, {1, 3, 0}}));
    std::array<Bytes, 2> moved{};
    b.offer(0, 0, size[0]);
    b.offer(1, 0, size[1]);
    Time now;
    const Bytes enough = 400 * std::max(size[0], size[1]);
    while (moved[0] + moved[1] < enough) {
      now = b.go(now).line_free;
      moved[b.last.vc] += size[b.last.vc];
      b.offer(b.last.vc, 0, size[b.last.vc]);
    }
    BOOST_TEST_INFO("trains of " << size[0] << " and " << size[1]);
    BOOST_TEST(static_cast<double>(moved[1]) / static_cast<double>(moved[0]) == 3.0,
               boost::test_tools::tolerance(0.04));
  }
}

BOOST_AUTO_TEST_CASE(an_idle_channel_saves_no_turns) {
  Bench b(link(gb(1), Time()), plan_with({{0, 1, 0}, {1, 1, 0}}));
  Time now;
  b.offer(0, 0, 10'000);
  b.offer(1, 0, 100);
  now = b.go(now).line_free;
  now = b.go(now).line_free;  // both served; virtual channel 1 may have deficit left
  for (int i = 0; i < 50; ++i) {
    b.offer(0, 0, 100);
    now = b.go(now).line_free;
  }
  // Back again, it takes turns: never more than one round of the largest train ahead.
  Bytes ahead = 0, moved0 = 0, moved1 = 0;
  b.offer(0, 0, 100);
  b.offer(1, 0, 100);
  for (int i = 0; i < 1000; ++i) {
    now = b.go(now).line_free;
    (b.last.vc == 0 ? moved0 : moved1) += 100;
    ahead = std::max(ahead, moved1 > moved0 ? moved1 - moved0 : moved0 - moved1);
    b.offer(b.last.vc, 0, 100);
  }
  BOOST_TEST(ahead <= 10'000u);
}

BOOST_AUTO_TEST_CASE(requesters_of_a_channel_take_turns) {
  Bench b(link(gb(1), Time()));
  for (const std::uint32_t r : {70u, 3u, 0u, 64u}) b.offer(0, r, 100);
  Time now;
  std::vector<std::uint32_t> order;
  for (int i = 0; i < 8; ++i) {
    now = b.go(now).line_free;
    order.push_back(b.last.requester);
    b.offer(0, b.last.requester, 100);
  }
  BOOST_TEST(order == (std::vector<std::uint32_t>{0, 3, 64, 70, 0, 3, 64, 70}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(owed_acks_go_in_front_of_the_next_train_unless_the_line_was_idle) {
  Bench b(link(gb(1), Time()));
  b.offer(0, 0, 1000);
  b.port.owe(64);
  BOOST_TEST(b.go(Time::us(1)).line_free.fs() == Time::us(2).fs());  // 64 B went out in the idle microsecond
  b.port.owe(64);
  b.offer(0, 0, 1000);
  BOOST_TEST(b.go(Time::us(2)).line_free.fs() == Time::ns(3064).fs());
  b.port.owe(64);
  b.offer(0, 0, 1000);
  BOOST_TEST(b.go(Time::ns(3064 + 40)).line_free.fs() == Time::ns(3064 + 40 + 24 + 1000).fs());  // 40 of 64 went before
  b.offer(0, 0, 1000);
  b.go_exactly_at(Time::ns(3064 + 40 + 24 + 1000));
}

BOOST_AUTO_TEST_CASE(a_port_is_quiet_when_nothing_it_has_done_can_be_told) {
  // 1 B/ns: 1000 B until 1000 ns, their credit home at 1700 ns, and 800 B of acks owed until the line has been idle for
  // as long.
  Bench b(link(gb(1), Time::ns(100), 4096, Time::ns(100)));
  b.offer(0, 0, 1000);
  BOOST_TEST((b.port.quiet_from(Time()) == Time::max()));
  b.go(Time());
  BOOST_TEST((b.port.quiet_from(Time::ns(1)) == Time::max()));  // its credit is not under way yet
  b.port.credit(0, 1000, 1, Time::ns(1600));
  BOOST_TEST(b.port.quiet_from(Time::ns(1)).fs() == Time::ns(1700).fs());
  b.port.owe(800);
  BOOST_TEST(b.port.quiet_from(Time::ns(1)).fs() == Time::ns(1800).fs());
  BOOST_TEST((b.port.quiet_from(Time::ns(2000)) <= Time::ns(2000)));
  b.offer(0, 0, 100);
  BOOST_TEST(b.go(Time::ns(1800)).line_free.fs() == Time::ns(1900).fs());
}

BOOST_AUTO_TEST_CASE(a_stream_is_rounded_once_not_train_by_train) {
  // 3 B/ns: 256 B take 85.333 ns; a million of them exactly 256e6/3 ns, rounded up.
  Bench b(link(gb(3), Time()));
  Time now;
  for (int i = 0; i < 999'999; ++i) {
    b.offer(0, 0, 256);
    now = b.go(now).line_free;
  }
  BOOST_TEST(now.fs() == 85'333'248'000'000ull);  // 999 999 is a multiple of 3
}

BOOST_AUTO_TEST_CASE(responses_go_as_their_class_and_requests_as_the_highest) {
  const VcPlan plan = plan_with({{0, 1, 0}, {1, 5, 2}, {2, 1, 1}});
  for (const std::uint8_t vc : {0, 1, 2}) {
    BOOST_TEST(plan.response_vc_of(vc) == response_vc(vc));
    BOOST_TEST(plan.priority[response_vc(vc)] == plan.priority[vc]);
    BOOST_TEST(plan.weight[response_vc(vc)] == plan.weight[vc]);
  }
  BOOST_TEST(plan.priority[kRequestVc] == 2);
}

BOOST_AUTO_TEST_CASE(an_idle_port_forgets_turns_of_channels_and_requesters) {
  Bench b(link(gb(1), Time()), plan_with({{0, 1, 0}, {1, 3, 0}}));
  const auto order = [&](Time begin) {
    std::vector<std::pair<int, std::uint32_t>> went;
    const auto offer = [&](std::uint8_t vc, std::uint32_t requester, Bytes bytes, Time now) {
      b.waiting[{vc, requester}] = {{bytes, 0, 0, bytes, 0}, Time()};
      b.port.add(vc, requester, now);
    };
    Time now = begin;
    offer(0, 0, 100, now);
    for (int i = 0; i < 9; ++i) {
      const Crossing c = b.go(now);
      went.emplace_back(b.last.vc, b.last.requester);
      // The others come while the line is busy: what they find is not theirs to forget.
      if (i == 0)
        for (std::uint32_t r = 0; r < 4; ++r) offer(r < 2 ? 0 : 1, 1 + r, 100 + 40 * r, now);
      if (i == 2)
        for (std::uint32_t r = 5; r < 9; ++r) offer(r % 2, r, 90, now);
      now = c.line_free;
    }
    return went;
  };
  const auto first = order(Time());
  b.offer(1, 3, 5000);  // a larger train than any, last of a virtual channel that another began with
  b.go(Time::us(100));
  BOOST_TEST((order(Time::us(200)) == first));
  b.offer(0, 2, 10);
  b.go(Time::us(300));
  BOOST_TEST((order(Time::us(400)) == first));
}
