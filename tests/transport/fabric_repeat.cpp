// The same run gives the same times, and the order of ties decides nothing that matters.
#include "tests/support/network.h"
#include "tests/support/systemc_main.h"

using namespace railyard;
using test::gb;
using test::ideal;
using test::Network;
using test::Simulation;

namespace {

struct Outcome {
  std::vector<std::uint64_t> landed;
  double mean_s = 0, makespan_s = 0;
};

Outcome outcome(const Simulation& s) {
  Outcome o;
  for (std::size_t i = 0; i < s.landed.size(); ++i) {
    o.landed.push_back(s.landed[i].fs());
    o.mean_s += s.took[i].seconds() / static_cast<double>(s.landed.size());
    o.makespan_s = std::max(o.makespan_s, s.landed[i].seconds());
  }
  return o;
}

Outcome random_network(std::uint64_t tie_seed) {
  transport::VcPlan plan;
  plan.assign(1, {1, 2, 0});
  Network s(42, 4096, plan);
  s.grow_tree(4, 10);
  s.add_traffic(300, 400'000, Time::us(50));
  s.fabric.calendar().shuffle_ties(tie_seed);
  s.run();
  return outcome(s);
}

constexpr Bytes kCut = 8192;

/// Nothing but ties: at one instant everybody sends to everybody (each to its next neighbour first), to one, or through
/// one uplink. Who goes first among equals is the calendar's choice.
Outcome ties(std::uint64_t tie_seed, int kind) {
  Simulation s(kCut);
  transport::Switch& left = s.add_switch();
  const auto link = ideal(gb(450), Time::ns(250), 262'144, Time::ns(100));
  constexpr transport::Window kNodes = 8;
  if (kind == 2) {
    transport::Switch& right = s.add_switch();
    for (transport::Window w = 0; w < kNodes; ++w) Simulation::attach(s.node(), w < kNodes / 2 ? left : right, link);
    const auto [l, r] = Simulation::join(left, right, link, link);
    left.decoder().set_default(l);
    right.decoder().set_default(r);
  } else {
    for (transport::Window w = 0; w < kNodes; ++w) Simulation::attach(s.node(), left, link);
  }
  s.fabric.calendar().shuffle_ties(tie_seed);
  for (transport::Window from = 0; from < kNodes; ++from) {
    if (kind == 0)
      for (transport::Window step = 1; step < kNodes; ++step)
        s.send(Time::fs(step), from, (from + step) % kNodes, kCut * 64);
    if (kind == 1 && from != 0) s.send(Time(), from, 0, kCut * 64 * (1 + from % 3));
    if (kind == 2) s.send(Time(), from, (from + kNodes / 2) % kNodes, kCut * 64 * (1 + from % 3));
  }
  s.run();
  return outcome(s);
}

/// A process outside the calendar that makes it run again at instants at which it ran already.
struct Foreign : sc_core::sc_module {
  SC_HAS_PROCESS(Foreign);
  Foreign(sc_core::sc_module_name name, Simulation& owner) : sc_module(name), simulation(owner) { SC_THREAD(run); }
  void run() {
    for (int i = 0; i < 3; ++i) {
      wait(sc_core::sc_time::from_value(Time::ns(10).fs()));
      wait(sc_core::SC_ZERO_TIME);
      BOOST_TEST(simulation.fabric.now().fs() == Time::ns(10 * (i + 1)).fs());
      simulation.at(simulation.fabric.now(), [this] { ++ran; });
    }
  }
  Simulation& simulation;
  int ran = 0;
};

/// Keeps the order of its events. Events of two tags schedule another event at their instant.
struct Scribe : transport::CalendarClient {
  static constexpr std::uint32_t kPlain = 1, kLast = 2;
  explicit Scribe(transport::Calendar& c) : calendar(c) {}
  void on_event(std::uint32_t tag, std::uint64_t data) override {
    order.push_back(data);
    if (tag == kPlain) calendar.at(calendar.now(), *this, 0, 9);
    if (tag == kLast) calendar.at_last(calendar.now(), next_turn, *this, 0, 8);
  }
  transport::Calendar& calendar;
  std::uint64_t next_turn = 0;
  std::vector<std::uint64_t> order;
};

}  // namespace

BOOST_AUTO_TEST_CASE(the_same_run_twice_gives_the_same_times) {
  const Outcome a = random_network(0), b = random_network(0);
  BOOST_TEST(a.landed == b.landed, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(the_same_tie_seed_gives_the_same_times) {
  const Outcome a = random_network(5), b = random_network(5);
  BOOST_TEST(a.landed == b.landed, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(shuffled_ties_move_aggregates_by_no_more_than_a_train) {
  const double train_s = gb(450).time_for(kCut).seconds();
  for (const int kind : {0, 1, 2}) {
    const Outcome reference = ties(0, kind);
    bool moved = false;
    for (const std::uint64_t seed : {1, 2, 3, 4, 5}) {
      const Outcome shuffled = ties(seed, kind);
      BOOST_TEST_CONTEXT("kind " << kind << ", seed " << seed) {
        BOOST_TEST(std::abs(shuffled.mean_s - reference.mean_s) <= train_s);
        BOOST_TEST(std::abs(shuffled.makespan_s - reference.makespan_s) <= train_s);
      }
      moved = moved || shuffled.landed != reference.landed;
    }
    BOOST_TEST(moved == (kind != 0));  // all-to-all in step has no conflict for a tie to decide
  }
}

BOOST_AUTO_TEST_CASE(a_foreign_process_shares_the_calendars_time) {
  Simulation s;
  Foreign foreign("foreign", s);
  std::vector<std::uint64_t> instants, order;
  s.fabric.calendar().set_instant_hook([&](Time now) {
    instants.push_back(now.fs() / Time::ns(1).fs());
    return true;
  });
  for (const std::uint64_t n : {20, 5, 10, 20}) s.at(Time::ns(n), [&, n] { order.push_back(n); });
  s.run();
  BOOST_TEST(foreign.ran == 3);
  BOOST_TEST(instants == (std::vector<std::uint64_t>{5, 10, 20, 30}), boost::test_tools::per_element());
  BOOST_TEST(order == (std::vector<std::uint64_t>{5, 10, 20, 20}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(what_comes_last_at_an_instant_comes_in_order_of_turns_however_it_was_scheduled) {
  Simulation s;
  transport::Calendar& calendar = s.fabric.calendar();
  Scribe scribe(calendar);
  const std::uint64_t first = calendar.take_turns(3), second = calendar.take_turns(1);
  BOOST_TEST(second == first + 3);
  const Time when = Time::ns(10);
  calendar.at_last(when, transport::Calendar::kLastTurns, scribe, 0, 5);
  calendar.at_last(when, second, scribe, 0, 4);
  calendar.at(when, scribe, 0, 1);
  calendar.at_last(when, first + 2, scribe, Scribe::kPlain, 3);
  calendar.at_last(Time::ns(5), second, scribe, 0, 0);
  calendar.at(when, scribe, 0, 2);
  s.run();
  BOOST_TEST(scribe.order == (std::vector<std::uint64_t>{0, 1, 2, 3, 9, 4, 5}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(consecutive_turns_let_an_earlier_event_pass_and_a_later_one_join) {
  Simulation s;
  transport::Calendar& calendar = s.fabric.calendar();
  Scribe scribe(calendar);
  const std::uint64_t first = calendar.take_turns(4);
  scribe.next_turn = first + 3;
  const Time when = Time::ns(10);
  calendar.at_last(when, first, scribe, Scribe::kPlain, 1);
  calendar.at_last(when, first + 1, scribe, 0, 2);
  calendar.at_last(when, first + 2, scribe, Scribe::kLast, 3);
  calendar.at_last(when, first + 1, scribe, 0, 2);  // a turn can have several equal events
  s.run();
  BOOST_TEST(scribe.order == (std::vector<std::uint64_t>{1, 9, 2, 2, 3, 8}), boost::test_tools::per_element());
  BOOST_TEST(calendar.pending() == 0u);
}

BOOST_AUTO_TEST_CASE(an_event_in_the_past_is_refused) {
  Simulation s;
  s.at(Time::ns(10), [&] { BOOST_CHECK_THROW(s.at(Time::ns(10) - Time::fs(1), [] {}), sc_core::sc_report); });
  s.run();
}

BOOST_AUTO_TEST_CASE(the_instant_hook_can_stop_the_run) {
  Simulation s;
  int ran = 0;
  s.fabric.calendar().set_instant_hook([](Time now) { return now < Time::ns(20); });
  for (const std::uint64_t n : {10, 20, 30}) s.at(Time::ns(n), [&] { ++ran; });
  sc_core::sc_start();
  BOOST_TEST(ran == 1);
  BOOST_TEST(s.fabric.now().fs() == Time::ns(20).fs());
  BOOST_TEST(s.fabric.calendar().pending() == 2u);
}
