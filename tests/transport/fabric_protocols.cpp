// What NVLink, PCIe and InfiniBand add to a link: headers, acks on the reverse direction, stripes over planes.
#include "tests/support/simulation.h"
#include "tests/support/striped_node.h"
#include "tests/support/systemc_main.h"

#include "infiniband/infiniband.h"
#include "nvlink/nvlink.h"
#include "pcie/pcie.h"

using namespace railyard;
using test::gb;
using test::ideal;
using test::Simulation;
using test::StripedNode;
namespace tt = boost::test_tools;

namespace {

transport::LinkDirection with(transport::LinkDirection link, const transport::PacketFormat& packet) {
  link.packet = packet;
  return link;
}

/// Two nodes on one switch.
struct Pair : Simulation {
  Pair(const transport::LinkDirection& link, Bytes cut, Bytes engine_payload = 0) : Simulation(cut) {
    transport::Switch& sw = add_switch();
    for (int i = 0; i < 2; ++i) {
      MemoryNode& n = node();
      n.set_engine_payload(engine_payload);
      attach(n, sw, link);
    }
  }
  using MemoryNode = test::MemoryNode;
};

constexpr Bytes kMessage = 14'400'000;

}  // namespace

BOOST_AUTO_TEST_CASE(nvlink_pays_a_header_per_store_and_a_response_the_other_way) {
  struct Case {
    Bytes engine;
    double one_way, both_ways;
  };
  for (const Case& c : {Case{128, 128.0 / (128 + 16), 128.0 / (128 + 16 + 16)},
                        Case{256, 256.0 / (256 + 16), 256.0 / (256 + 16 + 16)}}) {
    const auto link = with(ideal(gb(100), Time::ns(100), 1 << 20, Time::ns(50)), nvlink::Protocol().packet_format());
    Pair one(link, 25'600, c.engine);
    one.send(Time(), 0, 1, kMessage);
    one.run();
    BOOST_TEST(one.took[0].fs() == one.alone[0].fs());
    BOOST_TEST((one.took[0] - Time::ns(200)).fs() == gb(100).time_for(kMessage / c.engine * (c.engine + 16)).fs());
    Pair both(link, 25'600, c.engine);
    both.send(Time(), 0, 1, kMessage);
    both.send(Time(), 1, 0, kMessage);
    both.run();
    const double trains = static_cast<double>(kMessage) / 25'600;
    for (const Time t : both.took)
      BOOST_TEST(static_cast<double>(kMessage) / (t - Time::ns(200)).seconds() == 100e9 * c.both_ways,
                 tt::tolerance(1 / trains));
    BOOST_TEST(c.one_way > c.both_ways);
  }
}

BOOST_AUTO_TEST_CASE(pcie_pays_tlp_headers_and_flow_control_the_other_way) {
  const auto link = with(ideal(gb(63), Time::ns(100), 1 << 20, Time::ns(50)), pcie::Protocol().packet_format());
  Pair one(link, 25'600);
  one.send(Time(), 0, 1, kMessage);
  one.run();
  BOOST_TEST(one.took[0].fs() == one.alone[0].fs());
  BOOST_TEST((one.took[0] - Time::ns(200)).fs() == gb(63).time_for(kMessage / 256 * (256 + 24)).fs());
  Pair both(link, 25'600);
  both.send(Time(), 0, 1, kMessage);
  both.send(Time(), 1, 0, kMessage);
  both.run();
  const double expected = 63e9 * 256 / (280 * (1 + 16.0 / 168));
  for (const Time t : both.took)
    BOOST_TEST(static_cast<double>(kMessage) / (t - Time::ns(200)).seconds() == expected, tt::tolerance(2e-3));
}

BOOST_AUTO_TEST_CASE(infiniband_pays_26_bytes_a_packet_and_16_a_message) {
  const auto link = with(ideal(gb(50), Time::ns(300)), infiniband::Protocol().packet_format());
  Pair s(link, 12'288);
  s.send(Time(), 0, 1, 1 << 20);
  s.run();
  const Bytes wire = (1 << 20) + 256 * 26 + 16;
  BOOST_TEST((s.took[0] - Time::ns(600)).fs() == gb(50).time_for(wire).fs());
  BOOST_TEST(s.nodes[0].port(PortId(0)).counters.wire_bytes == wire);
  BOOST_TEST(s.nodes[0].port(PortId(0)).counters.payload_bytes == 1u << 20);
}

BOOST_AUTO_TEST_CASE(stripes_are_proportional_to_links) {
  const nvlink::Stripes stripes({5, 4, 4, 5}, 256);
  std::vector<Bytes> on;
  stripes.split(0, 18 * 256 * 1000, on);
  BOOST_TEST(on == (std::vector<Bytes>{5 * 256'000, 4 * 256'000, 4 * 256'000, 5 * 256'000}), tt::per_element());
  // From anywhere, any size: nothing is lost, and no plane is more than two granules from its share.
  for (const std::uint64_t offset : {0ull, 1ull, 255ull, 256ull, 4607ull, 4608ull, 1'000'003ull}) {
    for (const Bytes bytes : {0, 1, 256, 257, 4608, 10'000, 1'000'000}) {
      stripes.split(offset, bytes, on);
      Bytes sum = 0;
      for (std::size_t p = 0; p < 4; ++p) {
        sum += on[p];
        BOOST_TEST(std::abs(static_cast<double>(on[p]) - static_cast<double>(bytes) * stripes.links(p) / 18) <= 512);
      }
      BOOST_TEST(sum == bytes);
    }
  }
  // A piece of a stream and its rest make the whole.
  std::vector<Bytes> first, rest;
  stripes.split(100, 5000, first);
  stripes.split(5100, 7000, rest);
  stripes.split(100, 12'000, on);
  for (std::size_t p = 0; p < 4; ++p) BOOST_TEST(first[p] + rest[p] == on[p]);
}

BOOST_AUTO_TEST_CASE(stripes_by_links_give_450_and_equal_ones_400) {
  // A DGX H100: 18 links of 25 GB/s, 5 + 4 + 4 + 5 to four switches (NVIDIA H100 and DGX H100 datasheets).
  constexpr Bytes kBytes = 18 * 256 * 5000;
  const std::vector<std::uint32_t> links{5, 4, 4, 5};
  const auto rate_with = [&](const nvlink::Stripes& stripes) {
    Simulation s(16'384);
    std::deque<StripedNode> gpus;
    for (transport::Window w = 0; w < 2; ++w)
      gpus.emplace_back(("gpu" + std::to_string(w)).c_str(), s.fabric, w, stripes);
    for (const std::uint32_t n : links) {
      transport::Switch& plane = s.add_switch();
      for (StripedNode& gpu : gpus) Simulation::attach(gpu, plane, ideal(gb(25 * n), Time::ns(250)));
    }
    s.send(Time(), 0, 1, kBytes);
    s.run();
    return static_cast<double>(kBytes) / (s.took[0] - Time::ns(500)).seconds();
  };
  BOOST_TEST(rate_with(nvlink::Stripes(links, 256)) == 450e9, tt::tolerance(1e-9));
  BOOST_TEST(rate_with(nvlink::Stripes({1, 1, 1, 1}, 256)) == 400e9, tt::tolerance(1e-9));
}
