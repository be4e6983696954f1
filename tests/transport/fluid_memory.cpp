// Rates that are found again equal those that are solved, to the last bit, whatever streams do.
#include <deque>
#include <vector>

#include "base/random.h"
#include "tests/support/systemc_main.h"
#include "transport/fluid/rates.h"

using namespace railyard;
using namespace railyard::transport;

namespace {

/// Streams on lines of a random machine, of which some are opposite directions of each other. Equal for equal seeds.
struct Machine {
  Machine(std::uint64_t seed, bool remembers) : rates(plan, remembers) {
    Random random(seed, 0);
    ports.resize(12);
    for (std::size_t i = 0; i < ports.size(); ++i) {
      ports[i].own_line = 10 + static_cast<double>(random.below(90));
      ports[i].reverse = &ports[i ^ 1];
    }
    flows.resize(16);
    paths.resize(flows.size());
    for (std::uint32_t f = 0; f < flows.size(); ++f) {
      for (std::size_t port = random.below(3); port < ports.size(); port += 1 + random.below(5)) {
        FluidCrossing& crossing = paths[f].emplace_back();
        crossing.port = &ports[port];
        crossing.wire = 1 + 0.1 * random.uniform();
        crossing.owed = random.below(2) * 0.05;
        crossing.requester = static_cast<std::uint32_t>(random.below(3));
      }
      flows[f].crossings = &paths[f];
      flows[f].number = f;
    }
  }

  VcPlan plan;
  std::deque<FluidPort> ports;
  std::vector<std::vector<FluidCrossing>> paths;
  std::deque<FluidFlow> flows;
  FluidRates rates;
};

/// Lets streams of both machines begin, end and change, and compares them after each solution.
void play(Machine& a, Machine& b, Random& random, std::uint64_t steps) {
  std::vector<std::uint32_t> joined;
  const auto both = [&](const auto& act) {
    act(a);
    act(b);
  };
  while (steps > 0 || !joined.empty()) {
    const std::uint64_t what = steps > 0 ? random.below(5) : 1;
    if (steps > 0) --steps;
    const auto flow = static_cast<std::uint32_t>(random.below(a.flows.size()));
    const double demand = 5 + static_cast<double>(random.below(8));
    if (what == 0 || (what == 2 && joined.empty())) {
      if (a.flows[flow].joined) continue;
      joined.push_back(flow);
      both([&](Machine& m) {
        m.flows[flow].demand = demand;
        m.rates.join(m.flows[flow], false);
      });
    } else if (what == 1 && !joined.empty()) {
      const std::size_t place = random.below(joined.size());
      both([&](Machine& m) { m.rates.leave(m.flows[joined[place]]); });
      joined.erase(joined.begin() + static_cast<std::ptrdiff_t>(place));
    } else if (what == 2) {
      const std::uint32_t one = joined[random.below(joined.size())];
      both([&](Machine& m) {
        m.flows[one].demand = demand;
        m.rates.take_demand(m.flows[one], false);
      });
    } else {
      BOOST_TEST_REQUIRE(a.rates.settled() == b.rates.settled());
      const auto numbers = [](Machine& m) {
        std::vector<std::uint32_t> changed;
        for (const FluidFlow* one : m.rates.solve()) changed.push_back(one->number);
        return changed;
      };
      BOOST_TEST_REQUIRE((numbers(a) == numbers(b)));
      for (std::size_t f = 0; f < a.flows.size(); ++f) {
        BOOST_TEST_REQUIRE(a.flows[f].rate() == b.flows[f].rate());
        BOOST_TEST_REQUIRE(a.flows[f].narrowest() == b.flows[f].narrowest());
      }
    }
  }
  both([](Machine& m) { m.rates.solve(); });
}

}  // namespace

BOOST_AUTO_TEST_CASE(rates_found_again_are_the_rates_that_are_solved) {
  std::uint64_t found = 0;
  for (std::uint64_t machine = 0; machine < 10; ++machine) {
    Machine remembers(machine, true), solves(machine, false);
    Random choice(machine, 1);
    for (int episode = 0; episode < 60; ++episode) {
      // Few beginnings, and ends of any length: histories part where some have been solved, and none has.
      Random random(choice.below(4), 2);
      play(remembers, solves, random, 10 + choice.below(60));
    }
    found += remembers.rates.found();
    BOOST_TEST(solves.rates.found() == 0u);
  }
  BOOST_TEST(found > 1000u);
}

BOOST_AUTO_TEST_CASE(after_a_change_of_lines_nothing_is_found) {
  Machine remembers(3, true), solves(3, false);
  for (const double line : {50.0, 20.0, 50.0}) {
    for (Machine* m : {&remembers, &solves}) {
      m->ports[2].own_line = line;
      m->rates.forget();
    }
    const std::uint64_t before = remembers.rates.found();
    for (int again = 0; again < 2; ++again) {
      Random random(8, 2);
      play(remembers, solves, random, 40);
      BOOST_TEST((remembers.rates.found() > before) == (again > 0));
    }
  }
}
