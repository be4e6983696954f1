// NCCL's division of a message into parts, and the pieces that a receiver copies while later pieces arrive.
#include "collective/tuner.h"
#include "gpu/datasheet.h"
#include "tests/support/collective_star.h"
#include "tests/support/systemc_main.h"

using namespace railyard;
using collective::Algorithm;
using collective::CollectiveSpec;
using collective::NcclVersion;
using collective::Operation;
using collective::Protocol;

namespace {

constexpr Bytes kKib = 1 << 10, kMib = 1 << 20;

struct Machine {
  gpu::GpuDatasheet gpu;
  collective::Site site;

  explicit Machine(std::uint32_t ranks, bool nvlink = true) {
    gpu.architecture = gpu::Architecture::hopper;
    gpu.collective.channels = nvlink ? 24 : 4;
    gpu.collective.simple_gb_per_s = gpu.collective.ll128_gb_per_s = gpu.collective.p2p_gb_per_s = 10;
    gpu.collective.p2p_copy_gb_per_s = 20;
    gpu.nvlink.generation = 4;
    gpu.nvlink.gb_per_s = 25;
    gpu.nvlink.links = nvlink ? 18 : 0;
    gpu.pcie.generation = 5;
    site.gpu = &gpu;
    site.ranks = ranks;
    site.nvlink = nvlink;
  }
  /// Of an all-to-all with `message` bytes for each peer.
  CollectiveSpec all_to_all(Bytes message, NcclVersion version = NcclVersion::v2_29) const {
    collective::CollectiveRequest request;
    request.operation = Operation::all_to_all;
    request.bytes = message * site.ranks;
    request.nccl_version = version;
    collective::Group group;
    group.members.resize(site.ranks);
    return collective::choose(request, group, site);
  }
};

CollectiveSpec all_reduce(const Machine& machine, Protocol protocol, Bytes bytes,
                          Algorithm algorithm = Algorithm::ring) {
  collective::CollectiveRequest request;
  request.bytes = bytes;
  request.algorithm = algorithm;
  request.protocol = protocol;
  collective::Group group;
  group.members.resize(machine.site.ranks);
  return collective::choose(request, group, machine.site);
}

}  // namespace

BOOST_AUTO_TEST_CASE(few_channels_of_ll128_run_faster_than_many_that_share_a_gpu) {
  // A datasheet has the rate of each of its 24 channels; NCCL plans 36.7 GB/s for one of Hopper.
  Machine eight(8);
  BOOST_TEST(all_reduce(eight, Protocol::ll128, 64 * kMib).cost.channel_rate.gb_per_s() == 10);
  eight.site.most_channels = 12;
  BOOST_TEST(all_reduce(eight, Protocol::ll128, 64 * kMib).cost.channel_rate.gb_per_s() == 20);
  eight.site.most_channels = 4;
  BOOST_TEST(all_reduce(eight, Protocol::ll128, 64 * kMib).cost.channel_rate.gb_per_s() == 36.7);
}

BOOST_AUTO_TEST_CASE(lines_of_ll_in_host_memory_are_polled_one_by_one) {
  Machine peers(8, false), strangers(8, false);
  strangers.gpu.pcie.p2p = false;
  peers.gpu.collective.ll_line_ns = strangers.gpu.collective.ll_line_ns = 50;
  const CollectiveSpec direct = all_reduce(peers, Protocol::ll, kMib),
                       staged = all_reduce(strangers, Protocol::ll, kMib);
  BOOST_TEST(direct.slices == 1u);
  BOOST_TEST(staged.slices == 32 * kKib / staged.cost.line_bytes);
  BOOST_TEST((direct.cost.polled_line == Time() && staged.cost.polled_line > staged.cost.line));
  BOOST_TEST((staged.cost.line == direct.cost.line));
  const CollectiveSpec tree = all_reduce(strangers, Protocol::ll, kMib, Algorithm::tree);
  BOOST_TEST(tree.slices == staged.slices);
  BOOST_TEST(all_reduce(peers, Protocol::ll, kMib, Algorithm::tree).slices == 1u);
  BOOST_TEST(staged.cost.wire_bytes(1000) == 2000u);
  // Between two CPUs, peers stage their bytes, too.
  peers.site.roots = 2;
  BOOST_TEST(all_reduce(peers, Protocol::ll, kMib).slices == staged.slices);
}

BOOST_AUTO_TEST_CASE(trees_in_simple_move_whole_slots) {
  // Versions before 2.20 halved the chunk by the depth of the tree; src/enqueue.cc of 2.20 and later does so in LL128 only.
  Machine eight(8);
  for (const Bytes bytes : {256 * kKib, 16 * kMib, kMib << 10})
    BOOST_TEST(all_reduce(eight, Protocol::simple, bytes, Algorithm::tree).chunk_bytes == 512 * kKib);
  BOOST_TEST(all_reduce(eight, Protocol::ll128, 256 * kKib, Algorithm::tree).chunk_bytes < 40'000u);
}

BOOST_AUTO_TEST_CASE(a_part_has_at_least_64_kib_over_nvlink) {
  const Machine eight(8);
  BOOST_TEST(eight.all_to_all(64 * kKib).channels == 8u);
  BOOST_TEST(eight.all_to_all(65 * kKib).channels == 16u);
  BOOST_TEST(eight.all_to_all(256 * kKib).channels == 32u);
  // 24 channels become 32, of which each of two ranks gets 16 until a part would exceed 16 MiB.
  const Machine two(2);
  BOOST_TEST(two.all_to_all(256 * kMib).channels == 32u);
  BOOST_TEST(two.all_to_all(1024 * kKib).channels == 32u);
  BOOST_TEST(two.all_to_all(512 * kKib).channels == 16u);
}

BOOST_AUTO_TEST_CASE(a_peer_over_pcie_has_two_channels) {
  const Machine two(2, false);
  BOOST_TEST(two.all_to_all(16 * kKib).channels == 2u);
  BOOST_TEST(two.all_to_all(64 * kMib).channels == 4u);
  BOOST_TEST(two.all_to_all(64 * kMib).chunk_bytes == 128 * kKib);
}

BOOST_AUTO_TEST_CASE(versions_of_nccl_leave_ll_at_different_sizes) {
  const Machine two(2);
  const auto last_in_ll = [&](NcclVersion version) {
    Bytes message = kKib;
    while (two.all_to_all(2 * message, version).protocol == Protocol::ll) message *= 2;
    return message;
  };
  BOOST_TEST(last_in_ll(NcclVersion::v2_22) == 16 * kKib);
  BOOST_TEST(last_in_ll(NcclVersion::v2_27) == 512 * kKib);  // 16 KiB for each of 32 channels
  BOOST_TEST(last_in_ll(NcclVersion::v2_29) == 16 * kKib);   // a part of at least 64 KiB is not for LL
  // In LL a part has at least 8 KiB up to 2.28.
  BOOST_TEST(two.all_to_all(16 * kKib, NcclVersion::v2_27).channels == 4u);
}

BOOST_AUTO_TEST_CASE(a_receiver_copies_pieces_while_later_pieces_arrive) {
  constexpr Bytes kPiece = 100'000;
  constexpr std::uint32_t kPieces = 8;
  const Time alpha = Time::ns(600);
  const auto send = [&](std::uint64_t writes, std::uint64_t copies) {
    test::CollectiveStar star(2, test::ideal(test::gb(1000), Time::ns(300)), 1000);
    CollectiveSpec spec = test::collective_of(Operation::send_recv, Algorithm::direct, kPieces * kPiece);
    spec.chunk_bytes = kPiece;
    spec.slots = kPieces;
    spec.cost.channel_rate = test::gb(writes);
    spec.cost.copy_rate = test::gb(copies);
    return star.run_once(spec);
  };
  const auto time = [](std::uint64_t rate) { return test::gb(rate).time_for(kPiece); };
  // The last copy follows the last piece; with a slower copy, all copies follow the first piece.
  BOOST_TEST(send(10, 40).fs() == (time(10) * kPieces + alpha + time(40)).fs());
  BOOST_TEST(send(40, 10).fs() == (time(40) + alpha + time(10) * kPieces).fs());
}

BOOST_AUTO_TEST_CASE(pieces_of_all_peers_are_copied_together) {
  constexpr std::uint32_t n = 4, kChannels = 8, kForPeers = 6;  // the other two copy the member's own part
  constexpr Bytes kPart = 80'000;
  test::CollectiveStar star(n, test::ideal(test::gb(1000), Time::ns(300)), 1000);
  CollectiveSpec spec = test::collective_of(Operation::all_to_all, Algorithm::direct, n * kPart);
  spec.channels = kChannels;
  spec.cost.channel_rate = test::gb(5);
  spec.cost.copy_rate = test::gb(10);
  const Bytes all = (n - 1) * kPart;
  BOOST_TEST(star.run_once(spec).fs() ==
             (test::gb(5 * kForPeers).time_for(all) + Time::ns(600) + test::gb(10 * kForPeers).time_for(all)).fs());
}

BOOST_AUTO_TEST_CASE(an_uneven_all_to_all_takes_as_long_as_its_busiest_member) {
  constexpr std::uint32_t n = 4;
  constexpr Bytes kBytes = 800'000;
  const std::vector<std::uint32_t> shares{4, 2, 1, 1};
  for (const bool by_sender : {false, true}) {
    test::CollectiveStar star(n, test::ideal(test::gb(10), Time::ns(300)), 1000);
    CollectiveSpec spec = test::collective_of(Operation::all_to_all, Algorithm::direct, kBytes);
    spec.shares = {std::make_shared<const std::vector<std::uint32_t>>(shares), by_sender};
    // The first member receives, or sends, half of what each of the others sends or receives.
    const Time end = star.run_once(spec);
    BOOST_TEST(end.fs() >= (test::gb(10).time_for((n - 1) * kBytes / 2) + Time::ns(600)).fs());
    BOOST_TEST(end.fs() < (test::gb(10).time_for((n - 1) * kBytes / 2) + Time::ns(1000)).fs());
    for (std::uint32_t m = 0; m < n; ++m) {
      const Bytes own = (n - 1) * kBytes * shares[m] / 8;    // to or from it
      const Bytes others = kBytes - kBytes * shares[m] / 8;  // from or to it
      BOOST_TEST(star.sent(m) == (by_sender ? own : others));
      BOOST_TEST(star.received(m) == (by_sender ? others : own));
    }
  }
}

BOOST_AUTO_TEST_CASE(pxn_needs_neighbours_that_relay_and_another_server) {
  const CollectiveSpec spec = test::collective_of(Operation::all_to_all, Algorithm::pxn, 1000);
  collective::Group group;
  group.members.resize(4);
  for (const std::vector<std::uint32_t>& server : {std::vector<std::uint32_t>{0, 0, 0, 0}, {0, 1, 2, 3}}) {
    group.server = server;
    BOOST_TEST((collective::unsupported(spec, group) != nullptr));
  }
  group.server = {0, 0, 1, 1};
  BOOST_TEST((collective::unsupported(spec, group) == nullptr));
}

BOOST_AUTO_TEST_CASE(shares_need_one_number_for_each_member_of_an_all_to_all) {
  collective::Group group;
  group.members.resize(4);
  CollectiveSpec spec = test::collective_of(Operation::all_to_all, Algorithm::direct, 1000);
  for (const std::uint32_t count : {3u, 4u}) {
    spec.shares.of = std::make_shared<const std::vector<std::uint32_t>>(count, 1);
    BOOST_TEST((collective::unsupported(spec, group) == nullptr) == (count == 4));
  }
  spec.operation = Operation::all_gather;
  BOOST_TEST((collective::unsupported(spec, group) != nullptr));
}
