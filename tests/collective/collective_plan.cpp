// The graphs that NCCL's search finds, against what its logs say on the same machines.
#include "collective/nccl_graph.h"
#include "collective/tuner.h"
#include "gpu/datasheet.h"
#include "tests/support/systemc_main.h"

using namespace railyard::collective;

namespace {

NcclLinks server(NcclGeneration generation, double gpu, std::uint32_t gpus = 8) {
  NcclLinks links;
  links.generation = generation;
  links.gpu = gpu;
  links.gpus = gpus;
  return links;
}
NcclLinks servers(NcclLinks links, std::uint32_t nics, double nic) {
  links.nics = nics;
  links.nic = links.pcie = nic;
  return links;
}

// NVLinks of a GPU, as NCCL counts them.
const NcclLinks kA100 = server(NcclGeneration::ampere, 12 * 20), kA800 = server(NcclGeneration::ampere, 8 * 20),
                kH100 = server(NcclGeneration::hopper, 18 * 20.6), kH800 = server(NcclGeneration::hopper, 8 * 20.6),
                kB200 = server(NcclGeneration::blackwell, 18 * 40.1);

std::uint32_t channels(const NcclLinks& links) { return ring_channels(links, ring_graph(links)); }
double all(const NcclGraph& graph) { return graph.channels * graph.intra; }

}  // namespace

BOOST_AUTO_TEST_CASE(rings_of_one_server_are_as_many_as_logs_say) {
  BOOST_TEST(channels(kA100) == 24u);
  BOOST_TEST(channels(kA800) == 16u);
  BOOST_TEST(channels(kH100) == 24u);
  BOOST_TEST(channels(kH800) == 16u);  // NVIDIA/nccl issue 892
  BOOST_TEST(channels(kB200) == 32u);
  BOOST_TEST(all(ring_graph(kA100)) == 240);
  BOOST_TEST(all(ring_graph(kH100)) == 360);
  BOOST_TEST(all(ring_graph(kH800)) == 160);
  BOOST_TEST(all(ring_graph(kB200)) == 720);
}

// NCCL counts 12 GB/s for PCIe 3, 24 for PCIe 4 and 48 for PCIe 5, 20 for a link between GA100 cards and 12 between GA102 cards.
BOOST_AUTO_TEST_CASE(rings_of_cards_follow_the_links_between_them) {
  BOOST_TEST(channels(server(NcclGeneration::ampere, 12 * 20, 2)) == 24u);  // a bridged pair of A100
  BOOST_TEST(channels(server(NcclGeneration::ampere, 4 * 12, 2)) == 4u);    // of A40
  BOOST_TEST(channels(server(NcclGeneration::ampere, 24)) == 4u);           // two rings of 12 rather than one of 20
  BOOST_TEST(all(ring_graph(server(NcclGeneration::ampere, 24))) == 24);
  // One channel of 45 GB/s is split in two, which then have room for 24 GB/s each.
  BOOST_TEST(channels(server(NcclGeneration::blackwell, 48)) == 4u);
  BOOST_TEST(all(ring_graph(server(NcclGeneration::blackwell, 48))) == 48);
  // Between sockets: 22 GB/s.
  BOOST_TEST(channels(server(NcclGeneration::blackwell, 22)) == 2u);
  BOOST_TEST(all(ring_graph(server(NcclGeneration::blackwell, 22))) == 20);
  // Two bridged pairs have two rings at least.
  NcclLinks halves = server(NcclGeneration::volta, 12, 4);
  BOOST_TEST(channels(halves) == 2u);
  halves.least = 2;
  BOOST_TEST(channels(halves) == 4u);
  BOOST_TEST(all(ring_graph(halves)) == 12);
}

// All-reduces of eight RTX PRO 6000 below two sockets leave LL between 512 KiB and 1 MiB (validation/nccl.csv): NCCL plans
// with the rate between the sockets. Below one switch LL lasts twice as long.
BOOST_AUTO_TEST_CASE(ll_ends_earlier_where_sockets_are_between_the_cards) {
  railyard::gpu::GpuDatasheet card;
  card.architecture = railyard::gpu::Architecture::blackwell;
  card.pcie.generation = 5;
  card.collective.channels = 4;
  Site site;
  site.gpu = &card;
  site.ranks = 8;
  const auto in_ll = [&](railyard::Bytes bytes) {
    return nccl_plan(site, Operation::all_reduce, bytes, std::nullopt, std::nullopt).protocol == Protocol::ll;
  };
  constexpr railyard::Bytes kKib = 1024;
  BOOST_TEST((nccl_channels(site) == 4u && in_ll(1024 * kKib) && !in_ll(2048 * kKib)));
  site.roots = 2;
  site.root_gb_per_s = 63;
  BOOST_TEST((nccl_channels(site) == 2u && in_ll(512 * kKib) && !in_ll(1024 * kKib)));
  card.architecture = railyard::gpu::Architecture::ada;
  card.pcie.generation = 4;
  site.root_gb_per_s = 31.5;  // 10 GB/s between older CPUs, 16 between AMD's
  BOOST_TEST((in_ll(256 * kKib) && !in_ll(512 * kKib)));
  site.cpu = railyard::Cpu::epyc_rome;
  BOOST_TEST((in_ll(512 * kKib) && !in_ll(1024 * kKib)));
}

BOOST_AUTO_TEST_CASE(rings_over_servers_follow_the_nics) {
  BOOST_TEST(channels(servers(kH100, 8, 48)) == 16u);  // "Channel 00/16", NVIDIA/nccl issue 1453
  BOOST_TEST(channels(servers(kA100, 8, 24)) == 16u);
  BOOST_TEST(channels(servers(kA100, 4, 24)) == 8u);
  BOOST_TEST(all(ring_graph(servers(kH100, 8, 48))) == 8 * 48);
  BOOST_TEST(all(ring_graph(servers(kA100, 4, 24))) == 4 * 24);
  // Fewer NVLinks than NICs: each of the eight rings leaves the links of one GPU alone, and seven of 22 fit.
  const NcclGraph rings = ring_graph(servers(kH800, 8, 48));
  BOOST_TEST(rings.channels == 8u);
  BOOST_TEST(rings.intra == 22);
  // Lone GPUs over one fast NIC get four CTAs a ring.
  BOOST_TEST(channels(servers(server(NcclGeneration::hopper, 48, 1), 1, 48)) == 4u);
}

BOOST_AUTO_TEST_CASE(several_nics_of_a_gpu_share_its_pcie_link) {
  const NcclLinks lone = server(NcclGeneration::ampere, 240, 1);
  BOOST_TEST(all(ring_graph(servers(lone, 1, 24))) == 24);
  BOOST_TEST(all(ring_graph(servers(lone, 4, 24))) == 24);
  NcclLinks slow_nics = servers(lone, 4, 6);
  slow_nics.pcie = 24;
  BOOST_TEST(all(ring_graph(slow_nics)) == 24);
}

// Servers in which NVLink joins GPUs without switches: a lone GPU of each has no other member to which a link of it leads.
BOOST_AUTO_TEST_CASE(lone_gpus_of_meshes_are_planned_as_those_below_switches) {
  railyard::gpu::GpuDatasheet a100;
  a100.architecture = railyard::gpu::Architecture::ampere;
  a100.nvlink.generation = 3;
  a100.nvlink.links = 12;
  a100.pcie.generation = 4;
  a100.collective.channels = 24;
  Site site;
  site.gpu = &a100;
  site.ranks = site.servers = 3;
  site.nvlink = true;
  site.network_gb_per_s = 25;
  site.nics = 1;
  const auto gathers = [&](std::uint32_t mesh_links) {
    site.mesh_links = mesh_links;
    return planned_s(site, Operation::all_gather, 1 << 20);
  };
  BOOST_TEST(gathers(4) == gathers(0));
  BOOST_TEST(gathers(4) < 100e-6);  // 0.7 MiB over a NIC of 25 GB/s, and two hops
}

BOOST_AUTO_TEST_CASE(there_is_a_ring_however_slow_the_links) {
  const NcclLinks slow = server(NcclGeneration::hopper, 1);
  BOOST_TEST(ring_graph(slow).channels == 1u);
  BOOST_TEST(channels(servers(slow, 1, 0.1)) == 2u);
  BOOST_TEST(nvls_graph(slow).channels == 0u);
}

BOOST_AUTO_TEST_CASE(trees_of_two_servers_may_have_more_inside_them) {
  const NcclLinks four_nics = servers(kA100, 4, 24);
  const NcclGraph tree = tree_graph(four_nics, ring_graph(four_nics));
  BOOST_TEST(tree.channels == 4u);
  BOOST_TEST(tree.inter == 24);
  BOOST_TEST(tree.intra == 48);
  const NcclLinks h800 = servers(kH800, 8, 48);
  BOOST_TEST(tree_graph(h800, ring_graph(h800)).intra == 22);  // full already
}

BOOST_AUTO_TEST_CASE(every_gpu_of_one_server_is_a_head_that_counts_twice) {
  for (const auto& [links, heads, speed] :
       {std::make_tuple(kH100, 8u, 40.0), std::make_tuple(kH800, 8u, 15.0), std::make_tuple(kB200, 8u, 80.0),
        std::make_tuple(server(NcclGeneration::blackwell, 18 * 40.1, 4), 4u, 90.0),
        std::make_tuple(server(NcclGeneration::blackwell, 18 * 40.1, 16), 16u, 40.0)}) {
    const NcclGraph nvls = nvls_graph(links);
    BOOST_TEST(nvls.channels == heads);
    BOOST_TEST(nvls.intra == speed);
    BOOST_TEST((heads + 1) * speed <= links.gpu);
  }
}

BOOST_AUTO_TEST_CASE(heads_over_servers_stay_within_nvlinks_and_nics) {
  const NcclGraph h100 = nvls_graph(servers(kH100, 8, 48));
  BOOST_TEST(h100.channels == 8u);
  BOOST_TEST(h100.intra == 40);
  BOOST_TEST(h100.inter == 48);
  const NcclGraph h800 = nvls_graph(servers(kH800, 8, 48));
  BOOST_TEST(h800.channels == 8u);
  BOOST_TEST(h800.intra == 17.5);
  BOOST_TEST(h800.inter == 40);
}
