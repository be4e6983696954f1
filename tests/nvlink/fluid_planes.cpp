// Fluid rates over planes of NVSwitches. Where the planes of all messages are alike, one plane stands in for all.
#include "tests/support/simulation.h"
#include "tests/support/striped_node.h"
#include "tests/support/systemc_main.h"

#include "transport/faults.h"

using namespace railyard;
using test::gb;
using test::ideal;
using test::Simulation;
namespace tt = boost::test_tools;

namespace {

constexpr Bytes kBytes = 18 * 256 * 5000;
constexpr double kLatency_s = 200e-9;

/// GPUs with 18 links of 25 GB/s: 5 + 4 + 4 + 5 to four switches.
struct Planes : Simulation {
  explicit Planes(transport::Window size) {
    const std::vector<std::uint32_t> links{5, 4, 4, 5};
    for (transport::Window w = 0; w < size; ++w)
      gpus.emplace_back(("gpu" + std::to_string(w)).c_str(), fabric, w, nvlink::Stripes(links, 256));
    for (const std::uint32_t n : links) {
      transport::Switch& plane = add_switch();
      for (test::StripedNode& gpu : gpus) attach(gpu, plane, ideal(gb(25 * n), Time::ns(100)));
    }
  }
  /// Of a message that kept this rate from its start.
  void check_rate(std::size_t message, double bytes_per_second) const {
    BOOST_TEST(
        (took[message].seconds() - kLatency_s) * bytes_per_second == static_cast<double>(wanted()[message].bytes),
        tt::tolerance(1e-6));
  }
  std::deque<test::StripedNode> gpus;
};

}  // namespace

BOOST_AUTO_TEST_CASE(senders_share_the_links_of_a_receiver) {
  Planes s(4);
  s.fabric.model_as_fluid();
  for (const transport::Window from : {0u, 1u, 2u}) s.send(Time(), from, 3, kBytes);
  s.run();
  for (const std::size_t message : {0u, 1u, 2u}) s.check_rate(message, 150e9);
  for (const std::uint32_t plane : {0u, 1u, 2u, 3u})
    BOOST_TEST(s.gpus[1].port(PortId(plane)).counters.payload_bytes == kBytes * (plane % 3 == 0 ? 5 : 4) / 18);
}

// Whichever plane it is: the first one stands in for the others, and the last one has as many links as the first.
BOOST_AUTO_TEST_CASE(a_slow_link_of_one_plane_slows_its_messages_alone) {
  for (const Time slow_from : {Time(), Time::us(10)})
    for (const std::uint32_t plane : {0u, 1u, 2u, 3u}) {
      Planes s(4);
      s.fabric.model_as_fluid();
      s.fabric.faults().derate(slow_from, {&s.gpus[0], PortId(plane)}, 0.25);
      for (const transport::Window from : {1u, 0u, 2u}) s.send(Time(), from, 3, kBytes);
      s.run();
      // The plane's part of the 18 stripes crosses the slow link with a quarter of its rate. The other senders share
      // the rest.
      const double slow = 25e9 / 4 * 18, before = 150e9 * slow_from.seconds(), others = (450e9 - slow) / 2;
      const auto takes = [&](double rate) {
        return slow_from.seconds() + (static_cast<double>(kBytes) - before) / rate + kLatency_s;
      };
      BOOST_TEST(s.took[0].seconds() == takes(others), tt::tolerance(1e-6));
      BOOST_TEST(s.took[1].seconds() == takes(slow), tt::tolerance(1e-6));
      BOOST_TEST(s.took[2].seconds() == takes(others), tt::tolerance(1e-6));
    }
}

BOOST_AUTO_TEST_CASE(senders_share_a_slow_link_of_one_plane) {
  for (const std::uint32_t plane : {0u, 1u, 2u, 3u}) {
    Planes s(4);
    s.fabric.model_as_fluid();
    s.fabric.faults().derate(Time(), {&s.switches[plane], PortId(3)}, 0.25);
    for (const transport::Window from : {0u, 1u, 2u}) s.send(Time(), from, 3, kBytes);
    s.run();
    for (const std::size_t message : {0u, 1u, 2u}) s.check_rate(message, 25e9 / 4 * 18 / 3);
  }
}

BOOST_AUTO_TEST_CASE(a_message_on_one_plane_shares_that_plane) {
  Planes s(2);
  test::MemoryNode& lone = s.nodes.emplace_back("lone", s.fabric, 2);
  Simulation::attach(lone, s.switches[2], ideal(gb(100), Time::ns(100)));
  s.fabric.model_as_fluid();
  s.send(Time(), 0, 1, 2 * kBytes);
  const Time half = Time::ns(51'200);
  BOOST_TEST(half.seconds() == static_cast<double>(kBytes) / 450e9, tt::tolerance(1e-12));
  s.send(half, 2, 1, kBytes);
  s.run();
  // Half of the plane's 100 GB/s carries four of 18 stripes.
  BOOST_TEST(s.took[0].seconds() == half.seconds() + static_cast<double>(kBytes) / (50e9 * 18 / 4) + kLatency_s,
             tt::tolerance(1e-6));
}
