// The same run gives the same times, and the order of ties decides nothing that matters.
#include "tests/support/systemc_main.h"
#include "tests/support/network.h"

using namespace railyard;
using test::gb;
using test::ideal;
using test::Network;
using test::Simulation;

namespace {

struct Outcome { std::vector<std::uint64_t> landed; double mean_s = 0, makespan_s = 0; };

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
  transport::ChannelPlan plan;
  plan.assign(1, {1, 2, 0});
  Network s(42, 4096, plan);
  s.grow_tree(4, 10);
  s.add_traffic(300, 400'000, Time::us(50));
  s.fabric.calendar().shuffle_ties(tie_seed);
  s.run();
  return outcome(s);
}

constexpr Bytes kCut = 8192;

/// Nothing but ties: at one instant everybody sends to everybody (each to its next neighbour first), to one, or through one
/// uplink. Who goes first among equals is the calendar's choice.
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
      for (transport::Window step = 1; step < kNodes; ++step) s.send(Time::fs(step), from, (from + step) % kNodes, kCut * 64);
    if (kind == 1 && from != 0) s.send(Time(), from, 0, kCut * 64 * (1 + from % 3));
    if (kind == 2) s.send(Time(), from, (from + kNodes / 2) % kNodes, kCut * 64 * (1 + from % 3));
  }
  s.run();
  return outcome(s);
}

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
