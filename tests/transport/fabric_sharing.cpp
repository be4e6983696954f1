// Contention: who gets how much of a link that several want.
#include "tests/support/simulation.h"
#include "tests/support/systemc_main.h"

using namespace railyard;
using test::gb;
using test::ideal;
using test::Simulation;

namespace {

transport::VcPlan plan_of(const std::vector<transport::ClassSpec>& classes) {
  transport::VcPlan plan;
  for (std::size_t c = 0; c < classes.size(); ++c) plan.assign(c, classes[c]);
  return plan;
}

/// Nodes around one switch, all links alike.
struct Star : Simulation {
  Star(std::size_t count, const transport::LinkDirection& link, Bytes transaction_bytes,
       const transport::VcPlan& plan = {})
      : Simulation(transaction_bytes, plan) {
    transport::Switch& sw = add_switch();
    for (std::size_t i = 0; i < count; ++i) attach(node(), sw, link);
  }
};

/// Nodes 0..n-1 and n..2n-1 below two switches that share one link of the nodes' rate.
struct Dumbbell : Simulation {
  Dumbbell(std::size_t per_side, const transport::LinkDirection& link, Bytes transaction_bytes,
           const transport::VcPlan& plan = {})
      : Simulation(transaction_bytes, plan) {
    transport::Switch& left = add_switch();
    transport::Switch& right = add_switch();
    for (std::size_t i = 0; i < 2 * per_side; ++i) attach(node(), i < per_side ? left : right, link);
    const auto [at_left, at_right] = join(left, right, link, link);
    left.decoder().set_default(at_left);
    right.decoder().set_default(at_right);
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(the_fast_flow_gets_what_a_slow_upstream_leaves) {
  // Rates 1 and 8 into 8: charged, not held, the fast one gets 7. Both finish together when they move 1 and 7.
  for (const Bytes buffer : {0, 20'000}) {
    Simulation s(1000);
    transport::Switch& sw = s.add_switch();
    const auto fast = ideal(gb(8), Time::ns(10), buffer, Time::ns(10));
    Simulation::attach(s.node(), sw, ideal(gb(1), Time::ns(10), buffer, Time::ns(10)));
    Simulation::attach(s.node(), sw, fast);
    Simulation::attach(s.node(), sw, fast);
    constexpr Bytes kTrains = 1000;
    s.send(Time(), 0, 2, kTrains * 1000);
    s.send(Time(), 1, 2, 7 * kTrains * 1000);
    s.run();
    for (const Time t : s.took) BOOST_TEST(t.seconds() == 1e-3, boost::test_tools::tolerance(2.0 / kTrains));
  }
}

BOOST_AUTO_TEST_CASE(two_flows_through_one_uplink_get_half_each) {
  for (const Bytes cut : {1000, 4096, 50'000}) {
    Dumbbell s(2, ideal(gb(50), Time::ns(100), 65'536, Time::ns(100)), cut);
    s.send(Time(), 0, 2, 5'000'000);
    s.send(Time(), 1, 3, 5'000'000);
    s.run();
    const Time both = Time::ns(300) + Time::us(200);
    const Time train = gb(50).time_for(cut);
    BOOST_TEST(later(s.took[0], s.took[1]).fs() == both.fs());
    BOOST_TEST((sooner(s.took[0], s.took[1]) + train >= both));
  }
}

BOOST_AUTO_TEST_CASE(opposite_directions_do_not_disturb_each_other) {
  Dumbbell s(1, ideal(gb(50), Time::ns(100), 65'536, Time::ns(100)), 4096);
  s.send(Time(), 0, 1, 5'000'000);
  s.send(Time(), 1, 0, 5'000'000);
  s.run();
  for (const Time t : s.took) BOOST_TEST(t.fs() == (Time::ns(300) + Time::us(100)).fs());
}

BOOST_AUTO_TEST_CASE(a_transfer_occupies_both_ends) {
  // Seven to one fill the receiver's link, one to seven the sender's; seven disjoint pairs would take 1/7 of that.
  constexpr Bytes kBytes = 1'000'000;
  const auto link = ideal(gb(50), Time::ns(100), 65'536, Time::ns(100));
  Star in(8, link, 4000);
  for (transport::Window w = 1; w < 8; ++w) in.send(Time(), w, 0, kBytes);
  in.run();
  BOOST_TEST(std::max_element(in.took.begin(), in.took.end())->fs() == (Time::ns(200) + Time::us(140)).fs());
  Star out(8, link, 4000);
  for (transport::Window w = 1; w < 8; ++w) out.send(Time(), 0, w, kBytes);
  out.run();
  BOOST_TEST(std::max_element(out.took.begin(), out.took.end())->fs() == (Time::ns(200) + Time::us(140)).fs());
  Star apart(8, link, 4000);
  for (transport::Window w = 0; w < 8; ++w) apart.send(Time(), w, (w + 1) % 8, kBytes);
  apart.run();
  for (const Time t : apart.took) BOOST_TEST(t.fs() == (Time::ns(200) + Time::us(20)).fs());
}

BOOST_AUTO_TEST_CASE(incast_shares_the_output_equally) {
  Star s(4, ideal(gb(50), Time::ns(100), 65'536, Time::ns(100)), 1000);
  for (transport::Window w = 1; w < 4; ++w) s.send(Time(), w, 0, 1'000'000);
  s.run();
  for (const Time t : s.took) BOOST_TEST(t.seconds() == 60.2e-6, boost::test_tools::tolerance(2e-3));
}

BOOST_AUTO_TEST_CASE(a_small_message_waits_for_a_train_not_for_the_bulk) {
  Star s(3, ideal(gb(50), Time::ns(250), 262'144, Time::ns(50)), 0);
  s.send(Time(), 0, 1, 256 << 20);
  s.send(Time::ms(1), 0, 2, 65'536);  // another destination is another queue pair
  s.send(Time::ms(2), 0, 1, 65'536, 0, 1);
  s.send(Time::ms(3), 0, 1, 65'536, 0, 0);  // behind the bulk: this is what a queue pair is
  s.run();
  const Time train = gb(50).time_for(12'480);
  for (const std::size_t i : {1, 2}) BOOST_TEST((s.took[i] <= s.alone[i] * 2 + train), "took " << s.took[i].seconds());
  BOOST_TEST((s.took[3] > Time::ms(2)));
}

BOOST_AUTO_TEST_CASE(head_of_line_blocking_is_seen_and_a_channel_of_its_own_removes_it) {
  // 0 sends to 1, whom 2 and 3 also fill, and to idle 4. Alone the message to 4 takes 20.2 us.
  const auto waited = [](std::uint8_t class_of_second) {
    Star s(5, ideal(gb(50), Time::ns(100), 20'000, Time::ns(100)), 1000, plan_of({{0, 1, 0}, {1, 1, 0}}));
    for (const transport::Window w : {2, 3}) s.send(Time(), w, 1, 5'000'000);
    s.send(Time(), 0, 1, 5'000'000);
    const std::size_t victim = s.send(Time::us(50), 0, 4, 1'000'000, class_of_second);
    s.run();
    BOOST_TEST(s.alone[victim].fs() == (Time::us(20) + Time::ns(200)).fs());
    return s.took[victim].seconds() / s.alone[victim].seconds();
  };
  // In one virtual channel its trains queue in turn with those that leave at a third of the rate: three times as long.
  BOOST_TEST(waited(0) == 3.0, boost::test_tools::tolerance(0.05));
  // In its own it only shares 0's own link with a flow that takes a third of it.
  BOOST_TEST(waited(1) == 1.5, boost::test_tools::tolerance(0.05));
}

BOOST_AUTO_TEST_CASE(a_high_priority_message_waits_one_packet_per_hop) {
  transport::LinkDirection link = ideal(gb(50), Time::ns(100), 262'144, Time::ns(100));
  link.packet.max_payload_bytes = 4000;
  Dumbbell s(2, link, 40'000, plan_of({{0, 1, 0}, {1, 1, 2}}));
  s.send(Time(), 0, 2, 50'000'000);
  s.send(Time(), 1, 3, 50'000'000);
  std::vector<std::size_t> urgent;
  for (std::size_t i = 0; i < 50; ++i) urgent.push_back(s.send(Time::us(20 + 3 * i) + Time::ns(37 * i), 0, 3, 2000, 1));
  s.run();
  const Time packet = gb(50).time_for(4000);
  Time longest;
  for (const std::size_t i : urgent) {
    BOOST_TEST((s.took[i] <= s.alone[i] + packet * 3));
    longest = later(longest, s.took[i] - s.alone[i]);
  }
  BOOST_TEST((longest > Time()));  // somebody did wait
}

BOOST_AUTO_TEST_CASE(weights_share_a_switch_output_and_a_senders_link) {
  const auto plan = plan_of({{0, 1, 0}, {1, 3, 0}});
  const auto link = ideal(gb(50), Time::ns(100), 65'536, Time::ns(100));
  const auto check = [](Simulation& s) {  // the light one gets a quarter until the heavy one is done
    BOOST_TEST(s.took[1].seconds() == 80e-6, boost::test_tools::tolerance(0.01));
    BOOST_TEST(s.took[0].seconds() == 120e-6, boost::test_tools::tolerance(0.01));
  };
  Dumbbell apart(2, link, 1000, plan);
  apart.send(Time(), 0, 2, 3'000'000, 0);
  apart.send(Time(), 1, 3, 3'000'000, 1);
  apart.run();
  check(apart);
  Dumbbell together(2, link, 1000, plan);
  together.send(Time(), 0, 2, 3'000'000, 0);
  together.send(Time(), 0, 3, 3'000'000, 1);
  together.run();
  check(together);
}
