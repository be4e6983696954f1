// GPUs that NVLinks join each to each other one, without NVSwitches: which link carries what, and rings that use all links.
#include <map>
#include <numeric>

#include "tests/support/machine_collective.h"
#include "tests/support/systemc_main.h"
#include "transport/faults.h"

using namespace railyard;
using test::MachineRun;
namespace tt = boost::test_tools;

namespace {

const std::string kBoard = "hgx_a100_4gpu";
const std::string kMachine = "machine: {groups: {node: {gpu: A100-SXM4-80GB}}}\n";
constexpr Bytes kBytes = 64 << 20;
constexpr double kPairGbPerS = 4 * 25;  // four of twelve links
constexpr double kBothWays =
    39.0 / 40 * 128 / 160;  // payload of SM stores, with responses to as many in the other direction

/// Of the first GPUs.
class MeshCollective : public test::MachineCollective {
 public:
  explicit MeshCollective(std::uint32_t members) : MachineCollective(kMachine, kBoard, first(members)) {}

 private:
  static std::vector<std::uint32_t> first(std::uint32_t members) {
    std::vector<std::uint32_t> gpus(members);
    std::iota(gpus.begin(), gpus.end(), 0u);
    return gpus;
  }
};

collective::CollectiveSpec all_reduce(collective::Algorithm algorithm, std::uint32_t channels) {
  collective::CollectiveSpec spec;
  spec.algorithm = algorithm;
  spec.bytes = kBytes;
  spec.channels = channels;
  return spec;
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_link_of_a_pair_carries_what_they_send_each_other_and_nothing_else) {
  MachineRun s(kMachine, kBoard);
  s.send(Time(), 0, 2, kBytes);
  s.send(Time(), 3, 1, kBytes);
  s.run();
  BOOST_TEST(s.carried("node0.gpu0", "nvlink1") == kBytes);  // ports in the order of the other GPUs
  BOOST_TEST(s.carried("node0.gpu3", "nvlink1") == kBytes);
  for (const auto& [gpu, port] : {std::pair{"node0.gpu0", "nvlink0"},
                                  {"node0.gpu0", "nvlink2"},
                                  {"node0.gpu0", "pcie"},
                                  {"node0.gpu2", "nvlink0"},
                                  {"node0.gpu1", "nvlink2"}})
    BOOST_TEST(s.carried(gpu, port) == 0u);
  BOOST_TEST(s.gb_per_s(0) == kPairGbPerS * 39 / 40 * 128 / 144, tt::tolerance(2e-3));
}

BOOST_AUTO_TEST_CASE(a_lost_link_leaves_its_pair_on_pcie) {
  MachineRun s(kMachine, kBoard);
  const transport::LinkEnd there{&s.machine.gpu(GpuId(0)), PortId(0)}, back{&s.machine.gpu(GpuId(1)), PortId(0)};
  s.fabric.faults().fail(Time::ns(1), {there, back});
  s.send(Time::us(1), 0, 1, kBytes);
  s.send(Time::us(1), 0, 2, kBytes);
  s.run();
  BOOST_TEST(s.carried("node0.gpu0", "pcie") == kBytes);
  BOOST_TEST(s.carried("node0.gpu0", "nvlink1") == kBytes);
}

BOOST_AUTO_TEST_CASE(rings_in_all_orders_use_every_link_alike) {
  for (const std::uint32_t members : {2u, 3u, 4u}) {
    collective::Group group;
    for (std::uint32_t m = 0; m < members; ++m) group.members.push_back(m);
    group.mesh = true;
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> rings;
    for (std::uint32_t entry = 0; entry < collective::entries_of(group); ++entry) {
      const std::vector<std::uint32_t> order = collective::chains_of(group, entry)[0];
      for (std::uint32_t p = 0; p < members; ++p) ++rings[{order[p], order[(p + 1) % members]}];
    }
    BOOST_TEST(rings.size() == members * (members - 1));
    for (const auto& [link, count] : rings) BOOST_TEST(count == rings.begin()->second);
  }
}

// The least time of a ring all-reduce: a GPU sends 2 (n - 1) / n of the vector, over its links to the n - 1 others.
BOOST_AUTO_TEST_CASE(a_ring_all_reduce_reaches_the_rate_of_all_links) {
  for (const std::uint32_t members : {3u, 4u}) {
    MeshCollective s(members);
    collective::CollectiveSpec spec = all_reduce(collective::Algorithm::ring, 24);
    spec.chunk_bytes = 128 << 10;
    const double took_s = s.run_once(spec).seconds();
    const double sent = 2.0 * (members - 1) / members * kBytes;
    const double least_s = sent / ((members - 1) * kPairGbPerS * kBothWays * 1e9);
    BOOST_TEST(took_s >= least_s);
    BOOST_TEST(took_s == least_s, tt::tolerance(0.05));
    for (std::uint32_t from = 0; from < members; ++from)
      for (std::uint32_t port = 0; port + 1 < members; ++port)
        BOOST_TEST(static_cast<double>(s.carried("node0.gpu" + std::to_string(from),
                                                 "nvlink" + std::to_string(port))) == sent / (members - 1),
                   tt::tolerance(1e-5));
    BOOST_TEST(s.carried("node0.gpu0", "pcie") == 0u);
  }
}

BOOST_AUTO_TEST_CASE(trees_use_links_out_of_every_gpu) {
  MeshCollective s(4);
  s.run_once(all_reduce(collective::Algorithm::tree, 24));
  // Six chains from GPU 0. Two of them begin with the link to a given GPU, and in four of them two given others are neighbours.
  for (std::uint32_t gpu = 0; gpu < 4; ++gpu)
    for (std::uint32_t port = 0; port < 3; ++port)
      BOOST_TEST(static_cast<double>(s.carried("node0.gpu" + std::to_string(gpu), "nvlink" + std::to_string(port))) ==
                     (gpu == 0 || port == 0 ? 1.0 : 2.0) / 3 * kBytes,
                 tt::tolerance(1e-5));
}

// nvidia-smi prints NV4 for a pair; NCCL counts 20 GB/s for a link of an A100: as many channels as with NVSwitches for all
// four, a third for a pair (src/graph/search.cc).
BOOST_AUTO_TEST_CASE(nccl_counts_the_links_between_members) {
  BOOST_TEST(collective::nccl_channels(MeshCollective(4).site()) == 24u);
  BOOST_TEST(collective::nccl_channels(MeshCollective(3).site()) == 16u);
  BOOST_TEST(collective::nccl_channels(MeshCollective(2).site()) == 8u);
}
