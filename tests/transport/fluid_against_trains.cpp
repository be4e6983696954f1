// Fluid fidelity against trains: the same traffic in both; what it shares alike, and what it is known to miss.
#include "tests/support/systemc_main.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>

#include "tests/support/simulation.h"

using namespace railyard;
using test::gb;
using test::Simulation;

namespace {

struct Sent {
  Time at;
  transport::Window from = 0, to = 0;
  Bytes bytes = 0;
  std::uint8_t traffic_class = 0;
};
using Builder = std::function<void(Simulation&)>;

struct Outcome {
  std::vector<Time> took;
  std::vector<transport::PortCounters> counters;  ///< of every port
};

/// Packets are small, so that trains are in their limit.
Outcome run(const Builder& build, const std::vector<Sent>& traffic, bool fluid, const transport::VcPlan& plan = {}) {
  Simulation s(4096, plan);
  build(s);
  if (fluid) s.fabric.model_as_fluid();
  for (const Sent& m : traffic) s.send(m.at, m.from, m.to, m.bytes, m.traffic_class);
  s.run();
  Outcome outcome{s.took, {}};
  for (const transport::Device* device : s.fabric.devices())
    for (std::uint32_t p = 0; p < device->ports(); ++p) outcome.counters.push_back(device->port(PortId(p)).counters);
  return outcome;
}

/// Credits for `buffer` bytes, packets and answers to them.
transport::LinkDirection link(double gb_per_s, Bytes buffer) {
  transport::LinkDirection l = test::ideal(Rate::gb_per_s(gb_per_s), Time::ns(150), buffer, Time::ns(100));
  l.packet.max_payload_bytes = 256;
  l.packet.overhead_bytes = 16;
  l.packet.reverse_bytes_per_packet = 16;
  return l;
}

transport::Switch& crossbar(Simulation& s) {
  const std::string name = "switch" + std::to_string(s.switches.size());
  transport::Switch& made =
      s.switches.emplace_back(name.c_str(), s.fabric.context(), transport::Switch::DecodeBy::window,
                              transport::Switch::Queues::by_input_and_output);
  s.fabric.add_device(made);
  return made;
}

Builder star(std::uint32_t nodes, const transport::LinkDirection& each) {
  return [=](Simulation& s) {
    transport::Switch& sw = crossbar(s);
    for (std::uint32_t n = 0; n < nodes; ++n) Simulation::attach(s.node(), sw, each);
  };
}

/// Rounds in which every node sends one message to a random other one, within `spread` of each other; sizes are spread
/// evenly over their logarithm.
std::vector<Sent> random_rounds(std::uint32_t seed, std::size_t rounds, std::uint32_t nodes, double least, double most,
                                Time spread) {
  std::mt19937_64 random(seed);
  std::vector<Sent> all;
  for (std::size_t r = 0; r < rounds; ++r)
    for (transport::Window n = 0; n < nodes; ++n) {
      const Time at = Time::ms(1) * r + Time::fs(random() % spread.fs());
      const auto to = static_cast<transport::Window>((n + 1 + random() % (nodes - 1)) % nodes);
      const double size = least * std::pow(most / least, static_cast<double>(random() % 1000) / 1000);
      all.push_back({at, n, to, static_cast<Bytes>(size), 0});
    }
  return all;
}

double error(Time fluid, Time train) { return std::abs(fluid.seconds() / train.seconds() - 1); }

}  // namespace

BOOST_AUTO_TEST_CASE(random_messages_take_what_they_take_as_trains) {
  // Whoever sends sends one message at a time, so that nothing stands behind a blocked one.
  for (const double least : {16e3, 200e3}) {
    std::vector<double> errors;
    std::size_t slowed = 0;
    for (const std::uint32_t seed : {1u, 2u, 3u}) {
      const std::vector<Sent> traffic = random_rounds(seed, 10, 16, least, 16 * least, Time::us(3));
      const Outcome train = run(star(16, link(450, 1'000'000)), traffic, false),
                    fluid = run(star(16, link(450, 1'000'000)), traffic, true);
      for (std::size_t m = 0; m < traffic.size(); ++m) {
        errors.push_back(error(fluid.took[m], train.took[m]));
        slowed += error(train.took[m], gb(450).time_for(traffic[m].bytes)) > 0.5;
      }
    }
    std::sort(errors.begin(), errors.end());
    BOOST_TEST(slowed > errors.size() / 5);  // there is contention to be wrong about
    BOOST_TEST(errors[errors.size() / 2] <= 0.005);
    BOOST_TEST(errors[errors.size() * 95 / 100] <= 0.03);
  }
}

BOOST_AUTO_TEST_CASE(a_bottleneck_is_shared_max_min) {
  // Eight senders with lines of 1 to 50 GB/s into one of 100: the slow ones are served, the fast ones share what is
  // left.
  const std::vector<std::uint64_t> rates{1, 2, 5, 10, 20, 50, 50, 50};
  const Builder build = [&](Simulation& s) {
    transport::Switch& sw = crossbar(s);
    for (const std::uint64_t rate : rates)
      Simulation::attach(s.node(), sw, test::ideal(gb(rate), Time::ns(100), 100'000, Time::ns(100)));
    Simulation::attach(s.node(), sw, test::ideal(gb(100), Time::ns(100), 100'000, Time::ns(100)));
  };
  // As much as each gets in a millisecond, so that all end together.
  const double level = (100.0 - 1 - 2 - 5 - 10 - 20) / 3;
  std::vector<Sent> traffic;
  for (std::uint32_t n = 0; n < rates.size(); ++n)
    traffic.push_back({Time(), n, 8, static_cast<Bytes>(std::min(level, static_cast<double>(rates[n])) * 1e6), 0});
  const Outcome train = run(build, traffic, false), fluid = run(build, traffic, true);
  for (std::size_t m = 0; m < traffic.size(); ++m) {
    BOOST_TEST(fluid.took[m].seconds() == 1e-3, boost::test_tools::tolerance(0.001));
    BOOST_TEST(fluid.took[m].seconds() == train.took[m].seconds(), boost::test_tools::tolerance(0.02));
  }
}

BOOST_AUTO_TEST_CASE(a_port_shares_by_input_first) {
  // Three behind one switch and one behind another meet at a third: the lone one gets half, not a quarter.
  const auto line = test::ideal(gb(50), Time::ns(100), 100'000, Time::ns(100));
  const Builder build = [&](Simulation& s) {
    transport::Switch& middle = crossbar(s);
    for (const std::uint32_t senders : {3u, 1u}) {
      transport::Switch& leaf = crossbar(s);
      for (std::uint32_t n = 0; n < senders; ++n) Simulation::attach(s.node(), leaf, line);
      leaf.decoder().set_default(Simulation::join(leaf, middle, line, line).first);
    }
    Simulation::attach(s.node(), middle, line);
  };
  const std::vector<Sent> traffic{{Time(), 0, 4, 10'000'000, 0},
                                  {Time(), 1, 4, 10'000'000, 0},
                                  {Time(), 2, 4, 10'000'000, 0},
                                  {Time(), 3, 4, 30'000'000, 0}};
  const Outcome train = run(build, traffic, false), fluid = run(build, traffic, true);
  for (std::size_t m = 0; m < traffic.size(); ++m) {
    BOOST_TEST(fluid.took[m].seconds() == 60e6 / 50e9, boost::test_tools::tolerance(0.001));
    BOOST_TEST(fluid.took[m].seconds() == train.took[m].seconds(), boost::test_tools::tolerance(0.02));
  }
}

BOOST_AUTO_TEST_CASE(an_all_to_all_keeps_its_slowest_link_busy) {
  // A PCIe box: four GPUs of 26 GB/s at each of two switches, 40 GB/s between them. Far messages come in by one input
  // of a receiver's switch and near ones by three, but have their bottleneck in between: taking turns there would hold
  // them up.
  constexpr Bytes kEach = 2'000'000;
  const auto line = test::ideal(gb(26), Time::ns(100), 65'536, Time::ns(100)),
             middle = test::ideal(gb(40), Time::ns(300), 65'536, Time::ns(300));
  const Builder build = [&](Simulation& s) {
    transport::Switch& left = s.add_switch();
    transport::Switch& right = s.add_switch();
    for (int n = 0; n < 8; ++n) Simulation::attach(s.node(), n < 4 ? left : right, line);
    const auto [there, back] = Simulation::join(left, right, middle, middle);
    left.decoder().set_default(there);
    right.decoder().set_default(back);
  };
  std::vector<Sent> traffic;
  for (transport::Window next = 1; next < 8;
       ++next)  // each begins with its neighbour: in step, all would send to the same one
    for (transport::Window from = 0; from < 8; ++from)
      traffic.push_back({Time(), from, static_cast<transport::Window>((from + next) % 8), kEach, 0});
  const Outcome train = run(build, traffic, false), fluid = run(build, traffic, true);
  const double longest = 16. * kEach / 40e9;
  for (const Outcome* outcome : {&train, &fluid}) {
    BOOST_TEST_CONTEXT((outcome == &train ? "trains" : "fluid"))
    BOOST_TEST(std::max_element(outcome->took.begin(), outcome->took.end())->seconds() == longest,
               boost::test_tools::tolerance(0.01));
  }
}

BOOST_AUTO_TEST_CASE(random_traffic_over_random_trees_takes_what_it_takes_as_trains) {
  // Two to four switches of two to five nodes below one in the middle, lines of 10 to 60 GB/s, every node with a
  // message or two. What a node sends second stands behind a blocked front more often than not: see below.
  for (const std::uint32_t most : {1u, 2u}) {
    std::vector<double> errors, ends;
    for (std::uint32_t seed = 0; seed < 60; ++seed) {
      std::mt19937_64 random(seed);
      const auto pick = [&](std::uint64_t least, std::uint64_t high) { return least + random() % (high - least + 1); };
      std::vector<std::pair<transport::LinkDirection, std::vector<transport::LinkDirection>>> leaves(pick(2, 4));
      const auto line = [&] { return link(static_cast<double>(pick(10, 60)), 65'536); };
      transport::Window nodes = 0;
      for (auto& [up, down] : leaves) {
        up = line();
        down.resize(pick(2, 5));
        for (auto& each : down) each = line();
        nodes += static_cast<transport::Window>(down.size());
      }
      const Builder build = [&](Simulation& s) {
        transport::Switch& middle = s.add_switch();
        for (const auto& [up, down] : leaves) {
          transport::Switch& leaf = s.add_switch();
          const auto [at_leaf, at_middle] = Simulation::join(leaf, middle, up, up);
          leaf.decoder().set_default(at_leaf);
          for (const auto& each : down) {
            Simulation::attach(s.node(), leaf, each);
            middle.decoder().map(s.nodes.back().window(), at_middle);
          }
        }
      };
      std::vector<Sent> traffic;
      for (transport::Window from = 0; from < nodes; ++from)
        for (std::uint64_t m = pick(1, most); m > 0; --m)
          traffic.push_back({Time(), from, static_cast<transport::Window>((from + pick(1, nodes - 1)) % nodes),
                             pick(500'000, 2'000'000), 0});
      const Outcome train = run(build, traffic, false), fluid = run(build, traffic, true);
      for (std::size_t m = 0; m < traffic.size(); ++m) errors.push_back(error(fluid.took[m], train.took[m]));
      ends.push_back(error(*std::max_element(fluid.took.begin(), fluid.took.end()),
                           *std::max_element(train.took.begin(), train.took.end())));
    }
    std::sort(errors.begin(), errors.end());
    std::sort(ends.begin(), ends.end());
    const auto at = [](const std::vector<double>& all, std::size_t percent) {
      return all[(all.size() - 1) * percent / 100];
    };
    BOOST_TEST_MESSAGE("messages a node: " << most << "; messages 50/90/95/100 %: " << at(errors, 50) << " "
                                           << at(errors, 90) << " " << at(errors, 95) << " " << at(errors, 100)
                                           << "; ends: " << at(ends, 50) << " " << at(ends, 90) << " " << at(ends, 95)
                                           << " " << at(ends, 100));
    BOOST_TEST(at(ends, 50) <= 0.01);
    BOOST_TEST(at(ends, 90) <= 0.12);
  }
}

BOOST_AUTO_TEST_CASE(weights_and_priorities_hold) {
  transport::VcPlan plan;
  plan.assign(0, {0, 1, 0});
  plan.assign(1, {1, 3, 0});
  plan.assign(2, {2, 1, 1});
  const Builder build = star(4, test::ideal(gb(50), Time::ns(100), 100'000, Time::ns(100)));
  // The third goes first, alone for 100 us; then 1:3, 10 MB and 30 MB together in 800 us.
  const std::vector<Sent> traffic{
      {Time(), 0, 3, 10'000'000, 0}, {Time(), 1, 3, 30'000'000, 1}, {Time(), 2, 3, 5'000'000, 2}};
  const Outcome train = run(build, traffic, false, plan), fluid = run(build, traffic, true, plan);
  BOOST_TEST(fluid.took[0].seconds() == 900e-6, boost::test_tools::tolerance(0.001));
  BOOST_TEST(fluid.took[1].seconds() == 900e-6, boost::test_tools::tolerance(0.001));
  BOOST_TEST(fluid.took[2].seconds() == 100e-6, boost::test_tools::tolerance(0.003));
  for (std::size_t m = 0; m < traffic.size(); ++m)
    BOOST_TEST(fluid.took[m].seconds() == train.took[m].seconds(), boost::test_tools::tolerance(0.02));
}

BOOST_AUTO_TEST_CASE(links_carry_the_same_bytes) {
  const std::vector<Sent> traffic = random_rounds(7, 10, 8, 1e3, 1e6, Time::us(20));
  const Outcome train = run(star(8, link(450, 1'000'000)), traffic, false),
                fluid = run(star(8, link(450, 1'000'000)), traffic, true);
  for (std::size_t p = 0; p < train.counters.size(); ++p) {
    BOOST_TEST(fluid.counters[p].payload_bytes == train.counters[p].payload_bytes);
    BOOST_TEST(fluid.counters[p].wire_bytes == train.counters[p].wire_bytes);
  }
}

BOOST_AUTO_TEST_CASE(the_same_traffic_takes_the_same_time_again) {
  const std::vector<Sent> traffic = random_rounds(11, 10, 16, 1e3, 1e6, Time::us(2));
  const Outcome once = run(star(16, link(450, 1'000'000)), traffic, true),
                again = run(star(16, link(450, 1'000'000)), traffic, true);
  for (std::size_t m = 0; m < traffic.size(); ++m) BOOST_TEST(once.took[m].fs() == again.took[m].fs());
}

BOOST_AUTO_TEST_CASE(what_stands_behind_a_blocked_front_is_not_held_up) {
  // Known gap. Node 0 sends to 8, which seven others want, too, and to 9, which nobody else wants. As trains, what is
  // for 8 fills the switch's buffer, and what is for 9 waits for the same credits; fluid lets it pass at what the first
  // leaves of the line.
  std::vector<Sent> traffic;
  for (transport::Window n = 0; n < 8; ++n) traffic.push_back({Time(), n, 8, 10'000'000, 0});
  traffic.push_back({Time(), 0, 9, 10'000'000, 0});
  const Builder build = star(10, test::ideal(gb(50), Time::ns(100), 100'000, Time::ns(100)));
  const Outcome train = run(build, traffic, false), fluid = run(build, traffic, true);
  BOOST_TEST(fluid.took[8].seconds() == 10e6 / (50e9 * 7 / 8), boost::test_tools::tolerance(0.002));
  BOOST_TEST(train.took[8].seconds() > 5 * fluid.took[8].seconds());
}

BOOST_AUTO_TEST_CASE(the_depth_of_a_buffer_is_not_felt) {
  // Known gap. What is left of a fast link's burst in a buffer keeps a slow output busy while its sender does something
  // else; fluid has sent nothing ahead. A buffer that is too small for its round trip, however, does set the pace.
  const Builder deep = [](Simulation& s) {
    transport::Switch& sw = crossbar(s);
    Simulation::attach(s.node(), sw, test::ideal(gb(50), Time::ns(100)));
    Simulation::attach(s.node(), sw, test::ideal(gb(10), Time::ns(100)));
    Simulation::attach(s.node(), sw, test::ideal(gb(50), Time::ns(100)));
  };
  // With ample buffers the line of node 0 is shared evenly and free after 400 us, though node 1 takes 1 ms for its
  // part.
  const std::vector<Sent> traffic{{Time(), 0, 1, 10'000'000, 0}, {Time(), 0, 2, 10'000'000, 0}};
  const Outcome train = run(deep, traffic, false), fluid = run(deep, traffic, true);
  BOOST_TEST(train.took[0].seconds() == fluid.took[0].seconds(), boost::test_tools::tolerance(0.002));
  BOOST_TEST(train.took[1].seconds() == 400e-6, boost::test_tools::tolerance(0.01));
  BOOST_TEST(fluid.took[1].seconds() == 250e-6, boost::test_tools::tolerance(0.01));

  const Builder shallow = star(2, test::ideal(gb(50), Time::ns(500), 10'000, Time::ns(500)));  // 10 GB/s
  const Outcome slow = run(shallow, {{Time(), 0, 1, 10'000'000, 0}}, true);
  BOOST_TEST(slow.took[0].seconds() == 1e-3, boost::test_tools::tolerance(0.002));
}
