// fabric.classes means the same on every protocol: shares by weight, and a higher priority waits for one packet at
// most.
#include "tests/support/simulation.h"
#include "tests/support/systemc_main.h"

#include "infiniband/infiniband.h"
#include "infiniband/nic.h"
#include "nvlink/nvlink.h"
#include "pcie/pcie.h"

using namespace railyard;
using namespace railyard::test;
namespace tt = boost::test_tools;

namespace {

constexpr Bytes kBuffer = 262'144;

struct Wire {
  const char* name;
  transport::PacketFormat packet;
};

std::vector<Wire> wires() {
  return {{"InfiniBand", infiniband::Protocol().packet_format()},
          {"PCIe", pcie::Protocol().packet_format()},
          {"NVLink", nvlink::Protocol().packet_format()}};
}

/// Nodes 0 and 1 send to 2 and 3 over the one link between two switches. `to_node_2` is the rate of the last link to
/// node 2.
struct Shared : Simulation {
  Shared(const transport::PacketFormat& packet, const transport::VcPlan& plan, Rate to_node_2 = gb(50))
      : Simulation(0, plan) {
    transport::LinkDirection link = ideal(gb(50), Time::ns(100), kBuffer, Time::ns(100));
    link.packet = packet;
    transport::LinkDirection last = link;
    last.rate = to_node_2;
    transport::Switch& left = add_switch();
    transport::Switch& right = add_switch();
    for (int i = 0; i < 4; ++i) attach(node(), i < 2 ? left : right, link, i == 2 ? last : link);
    const auto [there, back] = join(left, right, link, link);
    for (const transport::Window w : {0u, 1u}) right.decoder().map(w, back);
    for (const transport::Window w : {2u, 3u}) left.decoder().map(w, there);
  }
};

transport::VcPlan plan_of(const transport::ClassSpec& first, const transport::ClassSpec& second) {
  transport::VcPlan plan;
  plan.assign(0, first);
  plan.assign(1, second);
  return plan;
}

/// A memory (0) whose link of 20 GB/s is the slowest, with a peer (1) below its switch. NICs read from it what goes to
/// the far memories 2 and 3, one NIC for each; `first_nic` is the rate of the first one's link.
struct SourceLink : Simulation {
  SourceLink(const transport::VcPlan& plan, Rate first_nic) : Simulation(4096, plan) {
    const auto wide = [](Rate rate) { return ideal(rate, Time::ns(100), 262'144, Time::ns(100)); };
    transport::Switch& network = add_switch(transport::Switch::DecodeBy::lid);
    transport::Switch& near = add_switch();
    transport::Switch& far = add_switch();
    attach(node(Time::ns(500)), near, wide(gb(20)));
    attach(node(), near, wide(gb(60)));
    for (int i = 0; i < 2; ++i) attach(node(), far, wide(gb(60)));
    const auto add_nic = [&](transport::Switch& plx, Rate rate) -> infiniband::Nic& {
      const auto lid = static_cast<std::uint32_t>(nics.size());
      infiniband::Nic& nic = nics.emplace_back(("nic" + std::to_string(lid)).c_str(), fabric.context(), 100 + lid, lid,
                                               infiniband::NicTiming{Time::ns(100), Time::ns(250), 1 << 20, 0});
      fabric.add_device(nic);
      plx.decoder().map(nic.window(), join(nic, plx, wide(gb(60)), wide(rate)).second);
      network.decoder().map(lid, join(nic, network, wide(gb(60)), wide(gb(60))).second);
      return nic;
    };
    const infiniband::Nic& receiver = add_nic(far, gb(60));
    for (const transport::Window to : {2u, 3u})
      nodes[0].route(to, add_nic(near, to == 2 ? first_nic : gb(60)), receiver.lid());
  }
  std::deque<infiniband::Nic> nics;
};

}  // namespace

BOOST_AUTO_TEST_CASE(what_a_nic_reads_shares_its_sources_link_as_its_class) {
  // The memory writes 10 MB to its peer (class 0) while a NIC reads 10 MB from it (class 1).
  struct Case {
    transport::ClassSpec writes, reads;
    double writes_take, reads_take;  // of their time alone
  };
  for (const Case& c : {Case{{0, 1, 0}, {1, 1, 0}, 2, 2},
                        {{0, 1, 0}, {1, 3, 0}, 2, 4. / 3},
                        {{0, 3, 0}, {1, 1, 0}, 4. / 3, 2},
                        {{0, 1, 1}, {1, 1, 0}, 1, 2},
                        {{0, 1, 0}, {1, 1, 2}, 2, 1}}) {
    for (const bool fluid : {false, true}) {
      SourceLink s(plan_of(c.writes, c.reads), gb(60));
      if (fluid) s.fabric.model_as_fluid();
      s.send(Time(), 0, 1, 10'000'000, 0);
      s.send(Time(), 0, 2, 10'000'000, 1);
      s.run();
      BOOST_TEST_CONTEXT("weights " << c.writes.weight << ":" << c.reads.weight << ", fluid " << fluid) {
        BOOST_TEST(s.took[0].seconds() / s.alone[0].seconds() == c.writes_take, tt::tolerance(0.02));
        BOOST_TEST(s.took[1].seconds() / s.alone[1].seconds() == c.reads_take, tt::tolerance(0.02));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(answers_of_a_class_with_its_own_channel_pass_blocked_ones) {
  // The first NIC's link takes 2 GB/s: what it has asked for fills the switch's buffer. In the same virtual channel the
  // other NIC's bytes stand behind; in another they take what the first leaves of 20 GB/s: 2, and the buffer's 256 KiB.
  constexpr Bytes kEach = 5'000'000;
  for (const std::uint8_t vc : {0, 1}) {
    SourceLink s(plan_of({0, 1, 0}, {vc, 1, 0}), gb(2));
    s.send(Time(), 0, 2, kEach, 0);
    s.send(Time(), 0, 3, kEach, 1);
    s.run();
    if (vc == 0) {
      BOOST_TEST(s.took[1].seconds() > 5 * s.alone[1].seconds());
    } else {
      BOOST_TEST(s.took[1].seconds() == (kEach + 262'144) / 18e9, tt::tolerance(0.01));
    }
  }
}

BOOST_AUTO_TEST_CASE(a_class_with_its_own_channel_passes_a_blocked_class) {
  // Class 0 goes to node 2, whose link takes 2 GB/s. Its writes fill the buffer of the right switch and block their
  // virtual channel of the shared link. The last class goes to node 3: in the same virtual channel it waits, in another
  // virtual channel it gets the 48 GB/s that class 0 leaves, after the buffer has been filled.
  constexpr Bytes kEach = 5'000'000;
  constexpr std::uint8_t kLast = transport::kMaxClasses - 1;
  for (const Wire& wire : wires()) {
    for (std::uint8_t vc = 0; vc < transport::kClassVcs; ++vc) {
      transport::VcPlan plan;
      plan.assign(0, {0, 1, 0});
      plan.assign(kLast, {vc, 1, 0});
      Shared s(wire.packet, plan, gb(2));
      s.send(Time(), 0, 2, kEach, 0);
      const std::size_t other = s.send(Time(), 1, 3, kEach, kLast);
      s.run();
      const double takes = s.took[other].seconds() / s.alone[other].seconds();
      BOOST_TEST_CONTEXT(wire.name << ", virtual channel " << int(vc)) {
        if (vc == 0) {
          BOOST_TEST(takes > 5);
        } else {
          BOOST_TEST(takes == 50. / 48 * (kEach + kBuffer) / kEach, tt::tolerance(0.02));
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(requests_and_answers_never_stop_each_other) {
  // Two memories write to and read from each other over NICs and directly, in every pair of virtual channels, through
  // small buffers.
  for (const std::uint8_t first : {0, 5})
    for (const std::uint8_t second : {0, 5}) {
      SourceLink s(plan_of({first, 1, 0}, {second, 2, 1}), gb(2));
      transport::Message read;
      read.kind = transport::MessageKind::read;
      read.bytes = 300'000;
      for (const std::uint8_t traffic_class : {0, 1}) {
        for (const transport::Window to : {1u, 2u, 3u}) s.send(Time(), 0, to, 300'000, traffic_class);
        read.traffic_class = traffic_class;
        for (const transport::Window from : {0u, 1u}) {
          read.source = from;
          read.destination = 1 - from;
          s.send(Time(), read);
        }
      }
      s.run();  // everything lands, every credit is home
    }
}

BOOST_AUTO_TEST_CASE(weights_share_a_link) {
  for (const Wire& wire : wires()) {
    BOOST_TEST_INFO(wire.name);
    Shared s(wire.packet, plan_of({0, 1, 0}, {1, 3, 0}));
    s.send(Time(), 0, 2, 10'000'000, 0);
    s.send(Time(), 1, 3, 10'000'000, 1);
    s.run();
    // Three quarters of the link until the heavy one is through, then all of it for the light one.
    BOOST_TEST(s.took[1].seconds() / s.alone[1].seconds() == 4. / 3, tt::tolerance(0.02));
    BOOST_TEST(s.took[0].seconds() / s.alone[0].seconds() == 2., tt::tolerance(0.02));
  }
}

BOOST_AUTO_TEST_CASE(a_higher_priority_goes_first) {
  for (const Wire& wire : wires()) {
    BOOST_TEST_INFO(wire.name);
    Shared s(wire.packet, plan_of({0, 1, 0}, {1, 1, 2}));
    s.send(Time(), 0, 2, 20'000'000, 0);
    const std::size_t bulk = s.send(Time::us(10), 1, 3, 5'000'000, 1);
    const std::size_t small = s.send(Time::us(200), 1, 3, 512, 1);
    s.run();
    const Time packet = gb(50).time_for(wire.packet.cost(transport::TransactionKind::write, 4096, 0, true).bytes);
    BOOST_TEST((s.took[small] <= s.alone[small] + packet * 2), s.took[small].fs() - s.alone[small].fs());
    BOOST_TEST(s.took[bulk].seconds() == s.alone[bulk].seconds(), tt::tolerance(0.01));
  }
}
