#define BOOST_TEST_MODULE platform_machines
#include "tests/support/systemc_main.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "infiniband/nic.h"
#include "platforms/machine.h"
#include "tests/support/machine_of.h"
#include "tests/support/simulation.h"
#include "transport/device/path.h"
#include "transport/device/spread.h"

using namespace railyard;
using railyard::test::machine_of;

namespace {

/// A machine on a fabric that runs nothing.
struct Elaborated : private test::FreshKernel {
  explicit Elaborated(const std::string& yaml, const std::string& platform = "plx_box")
      : Elaborated(machine_of(yaml, platform)) {}
  explicit Elaborated(const platforms::MachineSpec& spec) : fabric(transport::VcPlan(), 0), machine(spec, fabric) {}

  /// What the links from GPU to GPU carry, wire bytes: the slowest hop of each lane, summed.
  double gb_per_s(std::uint32_t from, std::uint32_t to) const {
    double sum = 0;
    for (const transport::Lane& lane : path(from, to).lanes) {
      double slowest = 1e9;
      for (const transport::Hop& hop : lane.hops) slowest = std::min(slowest, hop.link().rate.gb_per_s());
      sum += slowest;
    }
    return sum;
  }
  transport::Path path(std::uint32_t from, std::uint32_t to) const { return fabric.path(from, to, 0); }
  std::vector<std::uint32_t> nics_of_gpus() const {
    std::vector<std::uint32_t> nics;
    for (std::uint32_t g = 0; g < machine.gpus(); ++g) nics.push_back(machine.nic_of(GpuId(g)).value());
    return nics;
  }
  /// A link between switches: the tier above, up or down, the switches, and whether it leads to the next copy.
  using Link = std::tuple<platforms::Tier, bool, std::uint32_t, std::uint32_t, bool>;
  static Link link(const platforms::Trunk& t, bool to_next_copy) {
    return {t.upper, t.up, t.above, t.below, to_next_copy};
  }
  /// On the way from a GPU to a memory.
  std::set<Link> trunks_to(std::uint32_t from, transport::Window to) const {
    std::set<Link> found;
    const transport::Path walked = path(from, to);
    for (const transport::Hop& hop : walked.lanes.front().hops)
      for (const platforms::Machine::BuiltTrunk& built : machine.trunks())
        if (built.link.device == hop.device && built.link.port == hop.port)
          found.insert(link(built.trunk, built.to_next_copy));
    return found;
  }
  /// The same, from numbers of NICs only.
  std::set<Link> path(const platforms::NetworkMessage& message, platforms::Tier turns_at, bool to_next_copy) const {
    std::set<Link> found;
    for (const platforms::FatTree::Leg& leg :
         platforms::FatTree(machine.spec(), machine.spec().routing).path(message, turns_at))
      found.insert(link(leg.trunk, to_next_copy));
    return found;
  }

  transport::Assembly fabric;
  platforms::Machine machine;
};

}  // namespace

BOOST_AUTO_TEST_CASE(three_tiers_reach_all_nics_over_the_nearest_switches) {
  // Switches of four ports: two NICs on a leaf, two leaves and two spines in a pod, two cores for each spine. 16 NICs.
  const Elaborated e(
      "machine:\n"
      "  groups: {node: {servers: 8}}\n"
      "  nic: {per_server: 2}\n"
      "  network: {kind: leaf_spine, tiers: 3}\n"
      "  overrides: {ib_switch: {ports: 4}}\n");
  std::set<const transport::Device*> switches;
  for (const auto& device : e.machine.network()) switches.insert(device.get());
  BOOST_TEST(switches.size() == 8u + 4 * 2 + 4);  // leaves, spines, cores
  const std::uint32_t each = e.machine.spec().board.gpus;
  for (std::uint32_t from = 0; from < 8; ++from)
    for (std::uint32_t to = 0; to < 8; ++to) {
      if (from == to) continue;
      const transport::Path path = e.path(from * each, to * each);
      const auto& hops = path.lanes.front().hops;
      const auto crossed =
          std::count_if(hops.begin(), hops.end(), [&](const auto& hop) { return switches.count(hop.device) != 0; });
      BOOST_TEST(crossed == (from / 2 == to / 2 ? 3 : 5));  // a server fills a leaf, a pod has two servers
      BOOST_TEST(transport::arrival(hops, transport::window_base(to * each)).endpoint != nullptr);
    }
}

BOOST_AUTO_TEST_CASE(a_shift_by_a_pod_uses_every_core_once) {
  const Elaborated e(
      "machine:\n"
      "  groups: {node: {servers: 8}}\n"
      "  nic: {per_server: 2}\n"
      "  network: {kind: leaf_spine, tiers: 3}\n"
      "  overrides: {ib_switch: {ports: 4}}\n");
  std::map<std::pair<const transport::Device*, std::uint32_t>, std::uint32_t> uses;
  const std::uint32_t each = e.machine.spec().board.gpus;
  for (std::uint32_t from = 0; from < 8; ++from)
    for (const std::uint32_t slot : {0u, each / 2}) {  // one for each NIC
      const transport::Path path = e.path(from * each + slot, (from + 2) % 8 * each + slot);
      for (const transport::Hop& hop : path.lanes.front().hops)
        if (dynamic_cast<const infiniband::IbSwitch*>(hop.device) != nullptr) ++uses[{hop.device, hop.port.value()}];
    }
  for (const auto& [port, flows] : uses) BOOST_TEST(flows == 1u);
}

namespace {

const char* const kTrees[] = {
    "machine: {groups: {node: {servers: 8}}, nic: {per_server: 2}, network: {kind: leaf_spine},\n"
    "  overrides: {ib_switch: {ports: 8}}}\n",
    "machine: {groups: {node: {servers: 8}}, nic: {per_server: 2}, network: {kind: rail_optimized, spines: 3},\n"
    "  overrides: {ib_switch: {ports: 8}}}\n",
    "machine: {groups: {node: {servers: 8}}, nic: {per_server: 2}, network: {kind: leaf_spine, tiers: 3},\n"
    "  overrides: {ib_switch: {ports: 4}}}\n"};

/// From the first GPU of one NIC to the first of another.
platforms::NetworkMessage between(const platforms::MachineSpec& spec, std::uint32_t from, std::uint32_t to) {
  platforms::NetworkMessage message;
  message.from = number_in_whole(spec, from / 2) * 2 + from % 2;
  message.lid = message.to = number_in_whole(spec, to / 2) * 2 + to % 2;
  return message;
}

}  // namespace

BOOST_AUTO_TEST_CASE(ways_by_numbers_are_those_of_the_switches) {
  for (const char* tree : kTrees) {
    const Elaborated e(tree);
    const std::uint32_t each = e.machine.spec().board.gpus / 2;  // GPUs of a NIC
    std::size_t crossed = 0;
    for (std::uint32_t from = 0; from < 16; ++from)
      for (std::uint32_t to = 0; to < 16; ++to) {
        if (from / 2 == to / 2) continue;
        const auto walked = e.trunks_to(from * each, to * each);
        BOOST_TEST((walked == e.path(between(e.machine.spec(), from, to), platforms::Tier::leaf, false)));
        crossed += walked.size();
      }
    BOOST_TEST(crossed > 16u * 12);
  }
}

BOOST_AUTO_TEST_CASE(the_way_to_the_next_copy_can_have_links_of_its_own) {
  for (const char* tree : kTrees)
    for (const platforms::Tier turns_at : {platforms::Tier::spine, platforms::Tier::core}) {
      platforms::MachineSpec spec = machine_of(tree, "plx_box");
      if (turns_at == platforms::Tier::core && spec.tiers == 2) continue;
      spec.part = platforms::BuiltPart{8, {1, 6}, turns_at};
      spec.groups.front().servers = 2;
      Elaborated e(spec);
      const std::uint32_t each = spec.board.gpus / 2;
      for (const bool apart : {false, true}) {
        if (apart) e.machine.separate_paths_to_next_copy();
        for (std::uint32_t from = 0; from < 4; ++from)
          for (std::uint32_t to = 0; to < 4; ++to) {
            platforms::NetworkMessage message = between(spec, from, to);
            if (from / 2 != to / 2)
              BOOST_TEST((e.trunks_to(from * each, to * each) == e.path(message, platforms::Tier::leaf, false)));
            message.lid = e.machine.lid_to_next_copy(message.to);
            const auto walked = e.trunks_to(from * each, e.machine.gpu(GpuId(to * each)).window_beyond());
            BOOST_TEST(walked.size() >= (turns_at == platforms::Tier::core ? 4u : 2u));
            BOOST_TEST((walked == e.path(message, turns_at, apart)));
          }
      }
    }
}

BOOST_AUTO_TEST_CASE(every_board_reaches_its_nvlink_rate_between_all_gpus) {
  struct Board {
    const char* platform;
    const char* gpu;
    std::size_t planes;
    double gb_per_s;  // one direction, all links of a GPU
  };
  for (const Board& b : {Board{"dgx_a100", "A100-SXM4-80GB", 6, 300}, Board{"dgx_a100", "A800-SXM4-80GB", 6, 200},
                         Board{"dgx_h100", "H100-SXM5-80GB", 4, 450}, Board{"dgx_h100", "H800-SXM5-80GB", 4, 200},
                         Board{"dgx_b200", "B200-SXM-180GB", 2, 900}, Board{"dgx_b200", "B300-SXM-270GB", 2, 900},
                         Board{"gb200_nvl72", "GB200-186GB", 18, 900}, Board{"gb200_nvl72", "GB300-278GB", 18, 900}}) {
    const Elaborated e(std::string("machine: {groups: {node: {gpu: ") + b.gpu + "}}}\n", b.platform);
    BOOST_TEST_CONTEXT(b.gpu) {
      const std::uint32_t last = static_cast<std::uint32_t>(e.machine.gpus()) - 1;
      for (const auto& [from, to] : {std::pair{0u, 1u}, {0u, last}, {5u, 2u}}) {
        BOOST_TEST(e.path(from, to).lanes.size() == b.planes);
        BOOST_TEST(e.gb_per_s(from, to) == b.gb_per_s, boost::test_tools::tolerance(1e-9));
        for (const transport::Lane& lane : e.path(from, to).lanes) BOOST_TEST(lane.hops.size() == 2u);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(nics_spread_evenly_and_every_gpu_finds_one) {
  using Nics = std::vector<std::uint32_t>;
  const auto check = [](std::uint32_t per_server, const Nics& expected) {
    const Elaborated e("machine: {nic: {per_server: " + std::to_string(per_server) + "}}\n", "dgx_a100");
    BOOST_TEST(e.machine.nics() == per_server);
    BOOST_TEST(e.nics_of_gpus() == expected, boost::test_tools::per_element());
  };
  check(1, {0, 0, 0, 0, 0, 0, 0, 0});
  check(2, {0, 0, 0, 0, 1, 1, 1, 1});
  check(4, {0, 0, 1, 1, 2, 2, 3, 3});
  check(6, {0, 1, 2, 2, 3, 4, 5, 5});  // 2, 1, 2 and 1 at the four switches
  check(8, {0, 1, 2, 3, 4, 5, 6, 7});
  check(16, {0, 2, 4, 6, 8, 10, 12, 14});
  check(32, {0, 4, 8, 12, 16, 20, 24, 28});
}

BOOST_AUTO_TEST_CASE(a_racks_gpus_take_nics_of_their_own_tray) {
  for (const std::uint32_t per_rack : {18u, 36u, 72u, 144u}) {
    const Elaborated e("machine: {nic: {per_server: " + std::to_string(per_rack) + "}}\n", "gb200_nvl72");
    BOOST_TEST(e.machine.gpus() == 72u);
    constexpr std::uint32_t kGpusPerTray = 4, kTrays = 18;
    std::set<std::uint32_t> used;
    for (std::uint32_t g = 0; g < 72; ++g) {
      const std::uint32_t nic = e.machine.nic_of(GpuId(g)).value();
      BOOST_TEST(nic * kTrays / per_rack == g / kGpusPerTray);
      BOOST_TEST(e.machine.nic_modulo(GpuId(g), 1000 + g) * kTrays / per_rack == g / kGpusPerTray);
      used.insert(nic);
    }
    BOOST_TEST(used.size() == std::min(per_rack, 72u));
  }
}

BOOST_AUTO_TEST_CASE(racks_meet_over_c2c_and_their_nics) {
  const Elaborated e("machine: {groups: {rack: {servers: 2}}}\n", "gb200_nvl72");
  const transport::Path path = e.path(3, 72 + 71);
  BOOST_REQUIRE(path.lanes.size() == 1u);
  const std::vector<transport::Hop>& hops = path.lanes[0].hops;
  BOOST_TEST(hops.front().link().rate.gb_per_s() == 450.0);  // C2C to Grace
  BOOST_TEST(e.gb_per_s(3, 72 + 71) == 50.0);                // the cable
  BOOST_TEST(transport::payload_rate(path, 1 << 16).gb_per_s() < 50.0);
  BOOST_TEST(std::string(hops.front().device->name()) == "rack0.gpu3");
  BOOST_TEST(std::string(hops.back().device->name()) == "rack1.root35");
}

BOOST_AUTO_TEST_CASE(a_gpus_queue_pairs_spread_over_its_nics) {
  const Elaborated e("machine: {nic: {per_server: 16}}\n", "dgx_h100");
  for (std::uint32_t g = 0; g < 8; ++g) {
    BOOST_TEST(e.machine.nic_of(GpuId(g), 0).value() == 2 * g);
    BOOST_TEST(e.machine.nic_of(GpuId(g), 1).value() == 2 * g + 1);
    BOOST_TEST(e.machine.nic_of(GpuId(g), 2).value() == 2 * g);
  }
  // A route alone does not say which ports a message will cross.
  const Elaborated pair("machine: {groups: {node: {servers: 2}}, nic: {per_server: 16}}\n", "dgx_h100");
  const transport::Path path = pair.path(0, 8);
  for (const transport::Hop& hop : path.lanes[0].hops) BOOST_TEST(hop.one_of_several);
}

BOOST_AUTO_TEST_CASE(two_queue_pairs_of_a_gpu_use_two_nics_at_once) {
  // One message alone, and two of its size on different queue pairs: with a NIC each they take no longer.
  const auto took = [](std::uint32_t nics, std::uint32_t messages) {
    struct Sender : transport::MessageClient {
      void on_delivered(transport::Message& message) override { last = std::max(last, message.finished); }
      Time last;
    } client;
    Elaborated e("machine: {groups: {node: {servers: 2}}, nic: {datasheet: connectx6_hdr, per_server: " +
                     std::to_string(nics) + "}}\n",
                 "dgx_h100");
    struct Starter : transport::CalendarClient {
      void on_event(std::uint32_t, std::uint64_t) override {
        for (const transport::Message& message : messages) fabric->send(message);
      }
      transport::Assembly* fabric = nullptr;
      std::vector<transport::Message> messages;
    } starter;
    starter.fabric = &e.fabric;
    for (std::uint32_t m = 0; m < messages; ++m) {
      transport::Message message;
      message.source = 0;
      message.destination = 8;
      message.bytes = 16 << 20;
      message.queue_pair = m;
      message.client = &client;
      starter.messages.push_back(message);
    }
    e.fabric.calendar().at(Time(), starter, 0, 0);
    sc_core::sc_start();
    return client.last;
  };
  BOOST_TEST(took(16, 2).seconds() == took(16, 1).seconds(), boost::test_tools::tolerance(0.01));
  BOOST_TEST(took(8, 2).seconds() == 2 * took(8, 1).seconds(), boost::test_tools::tolerance(0.01));
}

BOOST_AUTO_TEST_CASE(all_bytes_over_several_nics_cross_the_link_of_their_gpu) {
  // Two NICs of 50 GB/s, or the four of two, behind 63 GB/s of PCIe.
  struct Running : test::Simulation {
    Running(const std::string& yaml, const std::string& platform) : machine(machine_of(yaml, platform), fabric) {}
    platforms::Machine machine;
  };
  constexpr Bytes kBytes = 16 << 20;
  for (const std::string nics : {"16", "32"}) {
    double took[2];
    for (const bool fluid : {false, true}) {
      Running s("machine: {groups: {node: {servers: 2}}, nic: {per_server: " + nics + "}}\n", "dgx_h100");
      if (fluid) s.fabric.model_as_fluid();
      transport::Message message;
      message.source = s.machine.gpu(GpuId(0)).window();
      message.destination = s.machine.gpu(GpuId(8)).window();
      message.bytes = kBytes;
      message.queue_pair = transport::kSpreadOverNics;
      s.send(Time(), message);
      s.run();
      took[fluid] = s.took[0].seconds();
      BOOST_TEST(took[fluid] > kBytes / 63.1e9);
      BOOST_TEST((s.alone[0] <= s.took[0]));
      BOOST_TEST(s.alone[0].seconds() == took[fluid], boost::test_tools::tolerance(0.02));
      const gpu::Gpu& gpu = s.machine.gpu(GpuId(0));
      Bytes carried = 0;
      for (std::uint32_t p = 0; p < gpu.ports(); ++p)
        carried = std::max({carried, gpu.port(PortId(p)).counters.payload_bytes,
                            gpu.port(PortId(p)).peer->port(gpu.port(PortId(p)).peer_port).counters.payload_bytes});
      BOOST_TEST(carried == kBytes);
    }
    BOOST_TEST(took[1] == took[0], boost::test_tools::tolerance(0.02));
  }
}

BOOST_AUTO_TEST_CASE(transfers_of_collectives_load_all_nics_of_a_gpu_alike) {
  struct Running : test::Simulation {
    Running(const std::string& yaml, const std::string& platform) : machine(machine_of(yaml, platform), fabric) {}
    platforms::Machine machine;
  };
  const auto sent = [](std::uint32_t marks) {
    Running s("machine: {groups: {node: {servers: 2}}, nic: {per_server: 32}}\n", "dgx_h100");
    for (std::uint32_t m = 0; m < 8; ++m) {  // messages of less than two stripes
      transport::Message message;
      message.source = s.machine.gpu(GpuId(0)).window();
      message.destination = s.machine.gpu(GpuId(8)).window();
      message.bytes = 100'000;
      message.queue_pair = transport::kSpreadOverNics | marks;
      s.send(Time::us(50 * m), message);
    }
    s.run();
    std::vector<Bytes> by_nic;
    for (const transport::Device* device : s.fabric.devices())
      if (const auto* nic = dynamic_cast<const infiniband::Nic*>(device); nic != nullptr && by_nic.size() < 4) {
        Bytes most = 0;
        for (std::uint32_t p = 0; p < nic->ports(); ++p)
          most = std::max(most, nic->port(PortId(p)).counters.payload_bytes);
        by_nic.push_back(most);
      }
    return by_nic;
  };
  const std::vector<Bytes> all{200'000, 200'000, 200'000, 200'000}, few{8 * 65'536, 8 * 34'464, 0, 0};
  BOOST_TEST(sent(transport::kSpreadEvenly) == all, boost::test_tools::per_element());
  BOOST_TEST(sent(0) == few, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(no_message_over_planes_of_different_rates_is_faster_than_alone) {
  struct Running : test::Simulation {
    Running(const std::string& yaml, const std::string& platform) : machine(machine_of(yaml, platform), fabric) {}
    platforms::Machine machine;
  };
  for (const auto& [platform, gpu] :
       {std::pair{"dgx_a100", "A800-SXM4-80GB"}, {"dgx_h100", "H100-SXM5-80GB"}, {"dgx_b200", "B200-SXM-180GB"}}) {
    Running s(std::string("machine: {groups: {node: {gpu: ") + gpu + "}}}\n", platform);
    const std::vector<Bytes> sizes{0, 1, 300, 5'000, 100'000};
    for (std::size_t i = 0; i < sizes.size(); ++i)
      s.send(Time::us(100 * i), s.machine.gpu(GpuId(0)).window(), s.machine.gpu(GpuId(3)).window(), sizes[i]);
    s.run();
    BOOST_TEST_CONTEXT(gpu) {
      BOOST_TEST((s.took[0] == s.alone[0]));  // one packet, always on the same plane
      for (std::size_t i = 1; i < sizes.size(); ++i) BOOST_TEST((s.took[i] >= s.alone[i]), sizes[i] << " bytes");
    }
  }
}
