// Fluid fidelity on what machines have: groups behind a switch, NICs, slow writers, links that change, and sets of links of
// which only some are fluid.
#include "tests/support/simulation.h"
#include "tests/support/systemc_main.h"

#include "infiniband/infiniband.h"
#include "pcie/pcie.h"
#include "transport/faults.h"
#include "transport/study/fidelity_choice.h"

using namespace railyard;
using test::gb;
using test::ideal;
using test::Simulation;
using transport::MessageKind;
namespace tt = boost::test_tools;

namespace {

/// Two memories below a PCIe switch each, with a NIC of few tags, and a network switch between.
struct Nics : Simulation {
  Nics() {
    transport::LinkDirection lanes = ideal(gb(63), Time::ns(100)), cable = ideal(gb(50), Time::ns(300));
    lanes.packet = pcie::Protocol().packet_format();
    cable.packet = infiniband::Protocol().packet_format();
    transport::Switch& network = add_switch(transport::Switch::DecodeBy::lid);
    for (std::uint32_t i = 0; i < 2; ++i) {
      transport::Switch& plx = add_switch();
      attach(node(Time::ns(500)), plx, lanes);
      attach(node(Time::ns(500)), plx, lanes);
      infiniband::Nic& nic = nics.emplace_back(("nic" + std::to_string(i)).c_str(), fabric.context(), 100 + i, i,
                                               infiniband::NicTiming{Time::ns(100), Time::ns(250), 32'768, 0});
      fabric.add_device(nic);
      plx.decoder().map(nic.window(), join(nic, plx, lanes, lanes).second);
      network.decoder().map(i, join(nic, network, cable, cable).second);
    }
    for (transport::Window from : {0u, 1u})
      for (transport::Window to : {2u, 3u}) {
        nodes[from].route(to, nics[0], 1);
        nodes[to].route(from, nics[1], 0);
      }
  }
  std::deque<infiniband::Nic> nics;
};

}  // namespace

BOOST_AUTO_TEST_CASE(groups_take_and_carry_what_they_do_as_trains) {
  for (const MessageKind kind : {MessageKind::multicast, MessageKind::reduce}) {
    Time took[2];
    std::vector<Bytes> carried[2];
    for (const bool fluid : {false, true}) {
      Simulation s(4000);
      transport::GroupSwitch sw("crossbar", s.fabric.context());
      s.fabric.add_device(sw);
      for (int i = 0; i < 4; ++i) Simulation::attach(s.node(Time::ns(400)), sw, ideal(gb(50), Time::ns(100)));
      transport::Message message;
      message.kind = kind;
      message.source = 1;
      message.bytes = 1'200'000;
      message.group = s.fabric.add_group({0, 1, 2, 3});
      if (fluid) s.fabric.model_as_fluid();
      s.send(Time::ns(5), message);
      s.run();
      took[fluid] = s.took[0];
      for (const transport::Device* device : s.fabric.devices())
        for (std::uint32_t p = 0; p < device->ports(); ++p)
          carried[fluid].push_back(device->port(PortId(p)).counters.payload_bytes);
    }
    BOOST_TEST(took[0].fs() == took[1].fs());
    BOOST_TEST(carried[0] == carried[1], tt::per_element());
  }
}

BOOST_AUTO_TEST_CASE(queue_pairs_share_what_a_nic_reads) {
  // 32 KiB of tags per round trip are less than the network takes; two memories share them.
  Time took[2][2];
  for (const bool fluid : {false, true}) {
    Nics s;
    if (fluid) s.fabric.model_as_fluid();
    s.send(Time(), 0, 2, 5'000'000);
    s.send(Time(), 1, 3, 5'000'000);
    s.run();
    for (int i = 0; i < 2; ++i) {
      took[fluid][i] = s.took[i];
      BOOST_TEST(s.took[i].seconds() > 1.9 * s.alone[i].seconds());
    }
  }
  for (int i = 0; i < 2; ++i) BOOST_TEST(took[1][i].seconds() == took[0][i].seconds(), tt::tolerance(0.02));
}

BOOST_AUTO_TEST_CASE(a_slow_writer_leaves_the_rest_to_others) {
  Simulation s;
  transport::Switch& sw = s.add_switch();
  for (int i = 0; i < 3; ++i) Simulation::attach(s.node(), sw, ideal(gb(50), Time::ns(100)));
  s.fabric.model_as_fluid();
  transport::Message slow;
  slow.source = 0;
  slow.destination = 2;
  slow.bytes = 1'000'000;
  slow.source_rate = gb(10);
  s.send(Time(), slow);
  s.send(Time(), 1, 2, 4'000'000);
  s.run();
  BOOST_TEST(s.took[0].fs() == s.alone[0].fs());
  BOOST_TEST(s.took[1].fs() == (Time::us(100) + Time::ns(200)).fs());
}

BOOST_AUTO_TEST_CASE(a_link_that_slows_down_slows_what_is_on_it) {
  Simulation s;
  transport::Switch& sw = s.add_switch();
  for (int i = 0; i < 2; ++i) Simulation::attach(s.node(), sw, ideal(gb(50), Time::ns(100)));
  s.fabric.model_as_fluid();
  s.send(Time(), 0, 1, 5'000'000);  // 100 us; half of it at a quarter of the rate
  s.fabric.faults().derate(Time::us(50), {&s.nodes[0], PortId(0)}, 0.25);
  s.run();
  BOOST_TEST(s.took[0].seconds() == 250.2e-6, tt::tolerance(1e-6));
}

BOOST_AUTO_TEST_CASE(what_trains_cannot_afford_is_fluid) {
  // Two stars of two; the traffic of the second is a thousand times that of the first.
  Simulation s(1000);
  for (int star = 0; star < 2; ++star) {
    transport::Switch& sw = s.add_switch();
    for (int i = 0; i < 2; ++i) Simulation::attach(s.node(), sw, ideal(gb(50), Time::ns(100)));
  }
  const std::vector<transport::Traffic> traffic{{0, 1, 0, 1e5}, {2, 3, 0, 1e8}, {3, 2, 0, 1e8}};
  const transport::FidelityChoice choice =
      transport::choose_fidelity(s.fabric.routes(), s.fabric.devices(), traffic, 1000);
  for (const transport::LinkEnd& link : choice.fluid) s.fabric.model_as_fluid(link);
  BOOST_TEST(choice.sets == 2u);
  BOOST_TEST(choice.fluid_sets == 1u);
  BOOST_TEST(choice.train_hops == 2 * 100.0);
  BOOST_TEST(choice.hops == 2 * 100.0 + 4 * 100'000.0);
  s.send(Time(), 0, 1, 100'000);
  s.send(Time(), 2, 3, 100'000'000);
  s.run();
  BOOST_TEST(s.nodes[0].port(PortId(0)).counters.transactions == 100u);
  BOOST_TEST(s.nodes[2].port(PortId(0)).counters.transactions == 1u);
  for (int m = 0; m < 2; ++m) BOOST_TEST(s.took[m].fs() == s.alone[m].fs());
}

BOOST_AUTO_TEST_CASE(collectives_beside_announced_traffic_cost_little_as_trains) {
  // Two groups of two on a star, and what one sends to the other.
  Simulation s(1000);
  transport::Switch& sw = s.add_switch();
  for (int i = 0; i < 4; ++i) Simulation::attach(s.node(), sw, ideal(gb(50), Time::ns(100)));
  const auto cost = [&](const std::vector<transport::Traffic>& traffic) {
    return transport::choose_fidelity(s.fabric.routes(), s.fabric.devices(), traffic, 1e9).hops;
  };
  const double large = 2 * 1e5, small = 2 * 1e3;  // transactions times links, of 1e8 and 1e6 bytes
  const transport::Traffic first{0, 1, 0, 1e8, 0}, second{2, 3, 0, 1e8, 1}, other_group{1, 2, 0, 1e8, 2};
  const transport::Traffic announced{1, 3, 1, 1e6, transport::Traffic::kNobody, true}, unknown{1, 3, 1, 1e6};
  BOOST_TEST(cost({first, second}) == 0.0);
  BOOST_TEST(cost({first, second, unknown}) == 2 * large + small);
  BOOST_TEST(cost({first, second, announced}) == 5 * small);
  BOOST_TEST(cost({first, second, announced, unknown}) == 2 * large + 2 * small);
  BOOST_TEST(cost({first, second, announced, other_group}) == 3 * large + small);  // shares links with both
}
