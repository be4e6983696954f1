// Sums in the network (SHARP): when nodes send what, what crosses which link, and how long a sum takes.
#include "collective/network_sums.h"
#include "tests/support/machine_collective.h"
#include "tests/support/systemc_main.h"

using namespace railyard;
using collective::Algorithm;
using collective::NetworkSums;
using test::MachineCollective;
namespace tt = boost::test_tools;

namespace {

constexpr Bytes kBytes = 1 << 20;
constexpr std::uint32_t kGpus = 8;  // of a server

std::string machine(std::uint32_t servers, std::uint32_t nics, const std::string& network) {
  return "machine: {groups: {node: {servers: " + std::to_string(servers) +
         ", gpu: A100-SXM4-80GB}}, nic: {per_server: " + std::to_string(nics) + "}, network: {sharp: true" + network +
         "}}\n";
}

std::vector<std::uint32_t> gpus(std::uint32_t servers, std::uint32_t of_server) {
  std::vector<std::uint32_t> all;
  for (std::uint32_t s = 0; s < servers; ++s)
    for (std::uint32_t g = 0; g < of_server; ++g) all.push_back(s * kGpus + g);
  return all;
}

collective::CollectiveSpec sum_of(Bytes bytes, std::uint32_t channels = 1) {
  collective::CollectiveSpec spec;
  spec.algorithm = Algorithm::collnet_direct;
  spec.bytes = bytes;
  spec.channels = channels;
  return spec;
}

using Sent = std::vector<std::pair<transport::Window, transport::Window>>;
Sent sent(const std::vector<NetworkSums::Next>& next) {
  Sent pairs;
  for (const auto& n : next) pairs.emplace_back(n.from, n.to);
  return pairs;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_node_sends_a_sum_when_all_children_have_sent_theirs) {
  // Servers with one GPU each: 0 and 1 below leaf 10, 2 below leaf 11; spine 20.
  collective::Group group;
  group.members = {0, 1, 2};
  group.server = {0, 1, 2};
  group.sum_nodes = {{10, 20}, {10, 20}, {11, 20}};
  NetworkSums sums;
  sums.prepare(group, 1);
  BOOST_TEST((sums.is_node(10) && sums.is_node(11) && sums.is_node(20) && !sums.is_node(2)));
  BOOST_TEST(sums.arrived(0, 10, 0, 0).empty());
  BOOST_TEST(sums.arrived(0, 10, 0, 0).empty());  // the next one of the same child
  BOOST_TEST((sent(sums.arrived(1, 10, 1, 0)) == Sent{{10, 20}}));
  BOOST_TEST((sent(sums.arrived(2, 11, 2, 0)) == Sent{{11, 20}}));
  BOOST_TEST(sums.arrived(10, 20, 0, 0).empty());
  BOOST_TEST((sent(sums.arrived(11, 20, 2, 0)) == Sent{{20, 10}, {20, 11}}));
  BOOST_TEST((sent(sums.arrived(20, 10, 0, 0)) == Sent{{10, 0}, {10, 1}}));
  BOOST_TEST((sent(sums.arrived(20, 11, 2, 0)) == Sent{{11, 2}}));
  BOOST_TEST((sent(sums.arrived(1, 10, 1, 0)) == Sent{{10, 20}}));  // the second sum
}

// The time of the way up and the way down, whatever the number of servers: no step depends on it. A node takes in and gives out
// at the rate of all its 40 ports.
BOOST_AUTO_TEST_CASE(a_sum_takes_one_way_up_and_one_down) {
  constexpr Bytes kOne = 4096, kPacket = kOne + 42;
  for (const std::uint32_t servers : {2u, 4u, 8u}) {
    MachineCollective s(machine(servers, 4, ""), "dgx_a100", gpus(servers, 1));
    const transport::Window node = s.group.sum_nodes[0].front();
    const auto alone = [&](transport::Window from, transport::Window to) {
      transport::Message m;
      m.source = from;
      m.destination = to;
      m.bytes = kOne;
      return s.fabric.uncontended(m);
    };
    const Time least = alone(0, node) + alone(node, 0);
    const Time turns = Rate::gb_per_s(40 * 25).time_for(kPacket) * (2 * (servers - 1));
    const Time took = s.run_once(sum_of(kOne));
    BOOST_TEST((took >= least && took <= least + turns), took.fs() << " of " << least.fs() << " and " << turns.fs());
  }
}

BOOST_AUTO_TEST_CASE(every_nic_carries_its_share_of_the_vector_once_each_way) {
  for (const std::uint32_t nics : {4u, 8u}) {
    MachineCollective s(machine(3, nics, ""), "dgx_a100", gpus(3, kGpus));
    s.run_once(sum_of(kBytes, 4));
    for (std::uint32_t server = 0; server < 3; ++server) {
      for (std::uint32_t n = 0; n < nics; ++n) {
        const std::string nic = "node" + std::to_string(server) + ".nic" + std::to_string(n);
        BOOST_TEST(s.carried(nic, "network") == kBytes / nics);
        BOOST_TEST(s.carried("ib0", "port" + std::to_string(server * nics + n)) == kBytes / nics);
      }
    }
    BOOST_TEST(s.carried("sharp_ib0", "network") == 3 * kBytes);
  }
}

BOOST_AUTO_TEST_CASE(a_leaf_sends_one_sum_for_all_its_servers) {
  // Leaves with four NICs each, two servers: each head's sum goes over one spine.
  MachineCollective s(machine(4, 2, ", kind: leaf_spine, spines: 2}, overrides: {ib_switch: {ports: 8}"), "dgx_a100",
                      gpus(4, kGpus));
  s.run_once(sum_of(kBytes, 2));
  for (const std::string leaf : {"leaf0", "leaf1"})
    for (const std::string up : {"up0", "up1"}) BOOST_TEST(s.carried(leaf, up) == kBytes / 2);
  for (const std::string spine : {"spine0", "spine1"})
    for (const std::string down : {"port0", "port1"}) BOOST_TEST(s.carried(spine, down) == kBytes / 2);
}

BOOST_AUTO_TEST_CASE(heads_below_one_leaf_need_no_spine) {
  MachineCollective s(machine(4, 2, ", kind: rail_optimized}, overrides: {ib_switch: {ports: 8}"), "dgx_a100",
                      gpus(4, kGpus));
  for (const std::uint32_t m : {0u, 4u}) BOOST_TEST(s.group.sum_nodes[m].size() == 1u);
  BOOST_TEST(s.group.sum_nodes[1].empty());
  s.run_once(sum_of(kBytes, 2));
  BOOST_TEST(s.carried("leaf0", "up0") == 0u);
}

BOOST_AUTO_TEST_CASE(nvswitches_add_before_the_network_does) {
  MachineCollective s("machine: {groups: {node: {servers: 2, gpu: H100-SXM5-80GB}}, network: {sharp: true}}\n",
                      "dgx_h100", gpus(2, kGpus));
  collective::CollectiveSpec spec = sum_of(kBytes, 4);
  spec.algorithm = Algorithm::nvls;
  s.run_once(spec);
  for (std::uint32_t nic = 0; nic < 16; ++nic) {
    BOOST_TEST(s.carried("node" + std::to_string(nic / 8) + ".nic" + std::to_string(nic % 8), "network") == kBytes / 8);
    BOOST_TEST(s.carried("ib0", "port" + std::to_string(nic)) == kBytes / 8);
  }
  const collective::Site site = s.site();
  const auto plan = collective::nccl_plan(site, collective::Operation::all_reduce, 16 << 20, {}, {});
  BOOST_TEST((plan.algorithm == Algorithm::nvls));
}

// A NIC sends the vector once, where a ring over four servers sends it 1.5 times.
BOOST_AUTO_TEST_CASE(large_sums_run_at_the_rate_of_the_nics) {
  MachineCollective s(machine(4, 8, ""), "dgx_a100", gpus(4, 1));
  collective::CollectiveSpec spec = sum_of(64 * kBytes, 8);
  spec.chunk_bytes = 64 << 10;
  const double took_s = s.run_once(spec).seconds();
  const double least_s = 64.0 * kBytes / 25e9 * (4096.0 + 26) / 4096;  // packets of the MTU with headers
  BOOST_TEST(took_s >= least_s);
  BOOST_TEST(took_s == least_s, tt::tolerance(0.03));
}

BOOST_AUTO_TEST_CASE(nccl_takes_sums_from_some_size_on) {
  const collective::Site site = MachineCollective(machine(2, 8, ""), "dgx_a100", gpus(2, kGpus)).site();
  const auto algorithm = [&](Bytes bytes) {
    return collective::nccl_plan(site, collective::Operation::all_reduce, bytes, {}, {}).algorithm;
  };
  BOOST_TEST(site.heads == 8u);
  BOOST_TEST((algorithm(1024) == Algorithm::tree));
  BOOST_TEST((algorithm(64 << 20) == Algorithm::collnet_direct));
  collective::Site plain = site;
  plain.heads = 0;
  BOOST_TEST((collective::nccl_plan(plain, collective::Operation::all_reduce, 64 << 20, {}, {}).algorithm !=
              Algorithm::collnet_direct));
}
