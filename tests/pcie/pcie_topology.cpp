// Which links peer traffic crosses: every way that a box of PCIe GPUs can be wired, access control services, NVLink bridges.
#include "tests/support/machine_run.h"
#include "tests/support/systemc_main.h"

using namespace railyard;
using test::MachineRun;
namespace tt = boost::test_tools;

namespace {

constexpr Bytes kBytes = 1'000'000;

std::string plx(const std::string& keys) { return "machine: {plx: {" + keys + "}}\n"; }

struct Loads {
  Bytes uplink0_up, uplink0_down, uplink1_up, uplink1_down, socket;
};

/// A message from GPU 0 to GPU `to` of one box: what the uplinks and the link between sockets carried.
Loads loads(const std::string& keys, transport::Window to) {
  MachineRun s(plx(keys));
  s.send(Time(), 0, to, kBytes);
  s.run();
  BOOST_TEST(s.took[0].fs() == s.alone[0].fs());
  BOOST_TEST(s.carried("node0.gpu0", "pcie") == kBytes);
  const bool is_dual = keys.find("single_root") == std::string::npos;
  const bool is_cascaded = keys.find("cascaded") != std::string::npos;
  Loads l;
  l.uplink0_up = s.carried("node0.plx0", "uplink");
  l.uplink0_down = s.carried("node0.root0", "port0");
  l.uplink1_up = s.carried("node0.plx1", "uplink");
  l.uplink1_down = is_cascaded ? s.carried("node0.plx0", "cascade")
                   : is_dual   ? s.carried("node0.root1", "port0")
                               : s.carried("node0.root0", "port1");
  l.socket = s.carried("node0.root0", "socket");
  return l;
}

void same(const Loads& a, const Loads& b) {
  BOOST_TEST(a.uplink0_up == b.uplink0_up);
  BOOST_TEST(a.uplink0_down == b.uplink0_down);
  BOOST_TEST(a.uplink1_up == b.uplink1_up);
  BOOST_TEST(a.uplink1_down == b.uplink1_down);
  BOOST_TEST(a.socket == b.socket);
}

}  // namespace

BOOST_AUTO_TEST_CASE(peers_below_one_switch_leave_its_uplink_alone_unless_acs_redirects_them) {
  for (const std::string uplink : {"dual_root", "single_root", "cascaded"}) {
    same(loads("uplink: " + uplink, 1), {0, 0, 0, 0, 0});
    same(loads("acs: true, uplink: " + uplink, 1), {kBytes, kBytes, 0, 0, 0});
  }
}

BOOST_AUTO_TEST_CASE(peers_of_two_switches_cross_what_joins_them) {
  same(loads("uplink: dual_root", 4), {kBytes, 0, 0, kBytes, kBytes});
  same(loads("uplink: single_root", 4), {kBytes, 0, 0, kBytes, 0});
  same(loads("uplink: cascaded", 4), {0, 0, 0, kBytes, 0});
  same(loads("uplink: dual_root, acs: true", 4), {kBytes, 0, 0, kBytes, kBytes});
  same(loads("uplink: single_root, acs: true", 4), {kBytes, 0, 0, kBytes, 0});
  same(loads("uplink: cascaded, acs: true", 4), {kBytes, kBytes, 0, kBytes, 0});
}

BOOST_AUTO_TEST_CASE(a_box_has_any_number_of_switches_that_divides_its_gpus) {
  const auto carried = [](const std::string& keys, transport::Window to, const char* device, const char* port) {
    MachineRun s(plx(keys));
    s.send(Time(), 0, to, kBytes);
    s.run();
    return s.carried(device, port);
  };
  // Four switches of two GPUs: GPUs 0 and 2 meet in their socket, GPUs 0 and 4 cross both sockets.
  BOOST_TEST(carried("switches: 4", 1, "node0.plx0", "uplink") == 0u);
  BOOST_TEST(carried("switches: 4", 2, "node0.plx0", "uplink") == kBytes);
  BOOST_TEST(carried("switches: 4", 2, "node0.root0", "socket") == 0u);
  BOOST_TEST(carried("switches: 4", 4, "node0.root0", "socket") == kBytes);
  BOOST_TEST(carried("switches: 4, uplink: cascaded", 6, "node0.plx0", "uplink") == 0u);
  // One switch of eight GPUs, and none: the sockets join them.
  BOOST_TEST(carried("switches: 1", 7, "node0.plx0", "uplink") == 0u);
  BOOST_TEST(carried("switches: 0", 3, "node0.root0", "socket") == 0u);
  BOOST_TEST(carried("switches: 0", 4, "node0.root0", "socket") == kBytes);
}

BOOST_AUTO_TEST_CASE(with_acs_neighbours_share_the_uplink) {
  const auto rate = [](const std::string& keys) {
    MachineRun s(plx(keys));
    for (transport::Window w = 0; w < 4; ++w) s.send(Time(), w, (w + 1) % 4, 20 * kBytes);
    s.run();
    return s.gb_per_s(0);
  };
  // A packet of 128 B with 24 B around it, and in both directions 16 B of DLLPs for every 168 B that come the other way.
  const double ratio = 128.0 / (152 * (1 + 16.0 / 168));
  BOOST_TEST(rate("acs: false") == 16 * 1.96923 * ratio, tt::tolerance(5e-3));     // a GPU's own link, Gen4
  BOOST_TEST(rate("acs: true") == 16 * 3.93846 / 4 * ratio, tt::tolerance(5e-3));  // a quarter of the uplink, Gen5
}

BOOST_AUTO_TEST_CASE(a_nics_reads_and_writes_go_by_the_root_complex_too) {
  MachineRun s("machine: {groups: {node: {servers: 2}}, plx: {acs: true}}\n");
  s.send(Time(), 0, 8, kBytes);
  s.run();
  BOOST_TEST(s.carried("node0.plx0", "uplink") == kBytes);  // completions of the NIC's reads
  BOOST_TEST(s.carried("node0.root0", "port0") == kBytes);
  BOOST_TEST(s.carried("node1.root0", "port0") == kBytes);
}

BOOST_AUTO_TEST_CASE(a_bridge_carries_its_pair_and_nobody_else) {
  MachineRun s("machine: {nvlink_bridge: pairs, groups: {node: {gpu: A100-PCIe-80GB}}}\n");
  s.send(Time(), 0, 1, 100 * kBytes);
  s.send(Time::ms(1), 2, 3, 100 * kBytes);
  s.send(Time::ms(1), 3, 2, 100 * kBytes);
  s.send(Time(), 4, 6, kBytes);
  transport::Message copy;
  copy.source = 0;
  copy.destination = 1;
  copy.bytes = 100 * kBytes;
  copy.engine = transport::Engine::copy_engine;
  s.send(Time::ms(2), copy);
  s.run();
  BOOST_TEST(s.carried("node0.gpu0", "nvlink0") == 200 * kBytes);
  BOOST_TEST(s.carried("node0.gpu0", "pcie") == 0u);
  BOOST_TEST(s.carried("node0.gpu4", "nvlink0") == 0u);
  BOOST_TEST(s.carried("node0.gpu4", "pcie") == kBytes);
  BOOST_TEST(s.took[0].fs() == s.alone[0].fs());
  // 12 links of 25 GB/s, of which the data link layer takes a 40th; a packet of 128 B or 256 B has one flit of 16 B around it
  // and owes as much on the way back. Measured on bridged A100s: 275 by copy engines.
  BOOST_TEST(s.gb_per_s(0) == 300.0 * 39 / 40 * 128 / 144, tt::tolerance(2e-3));
  BOOST_TEST(s.gb_per_s(4) == 300.0 * 39 / 40 * 256 / 272, tt::tolerance(2e-3));
  BOOST_TEST(s.gb_per_s(1) == 300.0 * 39 / 40 * 128 / 160, tt::tolerance(0.01));
}

BOOST_AUTO_TEST_CASE(a_pair_below_two_sockets_shares_its_limit_both_ways_and_no_other_pair_does) {
  // Rates of a second 5 MB after a first; Gen5 cards, whose links take 53 GB/s.
  const auto rates = [](const std::string& keys,
                        const std::vector<std::pair<transport::Window, transport::Window>>& pairs) {
    MachineRun s("machine: {groups: {node: {gpu: H100-PCIe-80GB}}" + keys + "}\n");
    for (const auto& [from, to] : pairs)
      for (int part = 0; part < 2; ++part) s.send(Time(), from, to, 5 * kBytes);
    s.run();
    std::vector<double> each;
    for (std::size_t p = 0; p < pairs.size(); ++p)
      each.push_back(5e6 / (s.landed[2 * p + 1] - s.landed[2 * p]).seconds() / 1e9);
    return each;
  };
  const double line = 63.0 * 128 / 152;
  BOOST_TEST(rates("", {{0, 1}})[0] == line, tt::tolerance(0.002));
  BOOST_TEST(rates("", {{0, 4}})[0] == 24, tt::tolerance(1e-3));
  const std::vector<double> both = rates("", {{0, 4}, {4, 0}});
  BOOST_TEST(both[0] == 12, tt::tolerance(0.01));
  BOOST_TEST(both[1] == 12, tt::tolerance(0.01));
  // Two pairs from one GPU share its link and the socket link only: 40 GB/s.
  const std::vector<double> fan = rates("", {{0, 4}, {0, 5}});
  BOOST_TEST(fan[0] == 20, tt::tolerance(0.02));
  BOOST_TEST(fan[1] == 20, tt::tolerance(0.02));
  BOOST_TEST(rates(", plx: {uplink: single_root}", {{0, 4}})[0] == line, tt::tolerance(0.002));
  BOOST_TEST(rates(", overrides: {root_complex: {far_peer_gb_per_s: 0}}", {{0, 4}})[0] == 40, tt::tolerance(0.002));
}

BOOST_AUTO_TEST_CASE(copy_engines_write_to_far_peers_at_the_rate_of_the_socket_link) {
  const auto rates = [](const std::string& keys, bool both_ways) {
    MachineRun s("machine: {groups: {node: {gpu: H100-PCIe-80GB}}" + keys + "}\n");
    transport::Message copy;
    copy.bytes = 20 * kBytes;
    copy.engine = transport::Engine::copy_engine;
    for (const transport::Window from : {0u, 4u}) {
      copy.source = from;
      copy.destination = 4 - from;
      if (from == 0 || both_ways) s.send(Time(), copy);
    }
    s.run();
    return s.gb_per_s(0);
  };
  BOOST_TEST(rates("", false) == 40, tt::tolerance(3e-3));
  BOOST_TEST(rates("", true) == 40, tt::tolerance(0.01));
  BOOST_TEST(rates(", overrides: {socket_link: {gb_per_s: 25}}", false) == 25, tt::tolerance(2e-3));
}

BOOST_AUTO_TEST_CASE(boards_set_rates_and_latencies_between_peers) {
  struct Peer {
    std::string board;
    transport::Window to;
    double latency_ns;  // of links and devices on the way from GPU 0
    double gb_per_s;    // of copies one way
  };
  constexpr double kGpu = 150, kSwitch = 115, kUplink = 60;  // a GPU's link, a PCIe switch, an uplink
  const double line = 63.0 * 128 / 152;                      // packets of 128 B with 24 B around each
  const auto by_root = [&](double root) { return 2 * kGpu + 2 * kSwitch + 2 * kUplink + root; };
  for (const Peer& peer :
       {Peer{"g493_zb0", 1, 2 * kGpu + 90, line}, Peer{"g493_zb0", 4, 2 * kGpu + 2 * 90, 43},
        Peer{"esc8000a_e13p", 1, 2 * kGpu + kSwitch, line}, Peer{"esc8000a_e13p", 2, by_root(90), line},
        Peer{"esc8000a_e13p", 4, by_root(2 * 90), 50}, Peer{"wrx90_ws_evo", 1, 2 * kGpu + kSwitch, line},
        Peer{"wrx90_ws_evo", 4, by_root(115), line}}) {
    MachineRun s(plx("board: " + peer.board));
    transport::Message copy;
    copy.destination = peer.to;
    copy.engine = transport::Engine::copy_engine;
    copy.bytes = 128;
    s.send(Time(), copy);
    copy.bytes = 20 * kBytes;
    s.send(Time::ms(1), copy);
    s.run();
    const double packets_ns = s.took[0].seconds() * 1e9 - peer.latency_ns;  // time of one packet on the links
    BOOST_TEST((packets_ns > 0 && packets_ns < 8), peer.board << ' ' << peer.to << ": " << packets_ns << " ns");
    BOOST_TEST(s.gb_per_s(1) == peer.gb_per_s, tt::tolerance(3e-3));
  }
}
