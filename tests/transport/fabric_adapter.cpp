// Standard TLM-2.0 models at the edge: an initiator with a thread and a memory with b_transport, neither knowing the fabric.
#include "tests/support/simulation.h"
#include "tests/support/systemc_main.h"
#include "tests/support/user_models.h"

#include "pcie/pcie.h"
#include "transport/edge/generic_payload_adapter.h"

using namespace railyard;
using test::gb;
using test::ideal;
using test::Simulation;
using test::UserInitiator;
using test::UserMemory;

namespace {

sc_core::sc_time ns(std::uint64_t n) { return sc_core::sc_time::from_value(n * 1'000'000); }

constexpr transport::Window kInitiator = 10, kTarget = 11;

/// A PCIe switch with two memories of ours, the user's initiator and the user's memory.
struct Edge : Simulation {
  Edge(const transport::LinkDirection& link, Bytes cut) : Simulation(cut) {
    fabric.add_device(plx);
    for (int i = 0; i < 2; ++i) attach(node(Time::ns(500)), plx, link);
    plx.decoder().map(kInitiator, join(initiator_adapter, plx, link, link).second);
    plx.decoder().map(kTarget, join(target_adapter, plx, link, link).second);
    user.socket.bind(initiator_adapter.socket);
    target_adapter.socket.bind(memory.socket);
  }
  static std::uint64_t address(transport::Window window, std::uint64_t offset) {
    return transport::window_base(window) + offset;
  }

  pcie::PlxSwitch plx{"plx", fabric.context(), false};
  transport::InitiatorAdapter initiator_adapter{"initiator_adapter", fabric, kInitiator, 0};
  transport::TargetAdapter target_adapter{"target_adapter", fabric, kTarget};
  UserInitiator user{"user"};
  UserMemory memory{"memory"};
};

const auto kLink = ideal(gb(50), Time::ns(100), 65'536, Time::ns(100));

}  // namespace

BOOST_AUTO_TEST_CASE(a_blocking_write_takes_the_time_of_its_bytes_and_reaches_the_users_memory) {
  Edge s(kLink, 4096);
  s.user.accesses.push_back({tlm::TLM_WRITE_COMMAND, Edge::address(kTarget, 4000), 1'000'000, ns(7)});
  s.run();
  const auto& a = s.user.accesses[0];
  BOOST_TEST(a.response == tlm::TLM_OK_RESPONSE);
  BOOST_TEST(a.ended.fs() == (Time::ns(7 + 200) + Time::us(20)).fs());
  BOOST_TEST(s.memory.written == 1'000'000u);
  BOOST_TEST(s.memory.lowest == 4000u);
  BOOST_TEST(s.memory.highest == 1'004'000u);
  BOOST_TEST(s.memory.read == 0u);
}

BOOST_AUTO_TEST_CASE(a_blocking_read_goes_out_waits_for_the_memory_and_comes_back) {
  Edge s(kLink, 1 << 20);
  s.memory.latency = ns(300);
  s.user.accesses.push_back({tlm::TLM_READ_COMMAND, Edge::address(kTarget, 0), 1'000'000, sc_core::SC_ZERO_TIME});
  s.user.accesses.push_back(
      {tlm::TLM_READ_COMMAND, Edge::address(0, 0), 1'000'000, sc_core::SC_ZERO_TIME});  // one of ours
  s.run();
  const auto& a = s.user.accesses;
  BOOST_TEST((a[0].ended - a[0].began).fs() == (Time::ns(200 + 300 + 200) + Time::us(20)).fs());
  BOOST_TEST((a[1].ended - a[1].began).fs() == (Time::ns(200 + 500 + 200) + Time::us(20)).fs());
  for (const auto& access : a) {
    BOOST_TEST(access.response == tlm::TLM_OK_RESPONSE);
    BOOST_TEST(access.zeros);
  }
  BOOST_TEST(s.memory.read == 1'000'000u);
  const auto& totals = s.fabric.ledger().totals(0);
  BOOST_TEST(totals.messages == 2u);
}

BOOST_AUTO_TEST_CASE(an_access_that_cannot_be_made_says_why) {
  Edge s(kLink, 4096);
  const auto now = sc_core::SC_ZERO_TIME;
  auto& a = s.user.accesses;
  a.push_back({tlm::TLM_WRITE_COMMAND, Edge::address(99, 0), 64, now});
  a.push_back({tlm::TLM_READ_COMMAND, Edge::address(12, 0), 64, now});
  a.push_back({tlm::TLM_WRITE_COMMAND, Edge::address(kTarget + 1, 0) - 32, 64, now});  // over the end of its window
  a.push_back({tlm::TLM_WRITE_COMMAND, Edge::address(kTarget, 0), 64, now, true});
  a.push_back({tlm::TLM_WRITE_COMMAND, Edge::address(kTarget, 0), 64, now, false, 8});
  a.push_back({tlm::TLM_IGNORE_COMMAND, Edge::address(kTarget, 0), 64, now});
  a.push_back({tlm::TLM_WRITE_COMMAND, Edge::address(kTarget, 0), 64, now});
  s.run();
  for (const std::size_t i : {0, 1, 2}) BOOST_TEST(a[i].response == tlm::TLM_ADDRESS_ERROR_RESPONSE);
  BOOST_TEST(a[3].response == tlm::TLM_BYTE_ENABLE_ERROR_RESPONSE);
  BOOST_TEST(a[4].response == tlm::TLM_BURST_ERROR_RESPONSE);
  BOOST_TEST(a[5].response == tlm::TLM_OK_RESPONSE);
  BOOST_TEST(a[6].response == tlm::TLM_OK_RESPONSE);
  BOOST_TEST(a[5].ended.fs() == 0u);  // none of those took time or reached the memory
  BOOST_TEST(s.memory.written == 64u);
}

BOOST_AUTO_TEST_CASE(the_users_traffic_and_ours_contend_in_the_switch) {
  Edge s(kLink, 4096);
  s.user.accesses.push_back({tlm::TLM_WRITE_COMMAND, Edge::address(kTarget, 0), 2'000'000, sc_core::SC_ZERO_TIME});
  s.send(Time(), 0, kTarget, 2'000'000);  // one of ours to the user's memory
  s.run();
  const double half = 80e-6 + 200e-9;
  BOOST_TEST(s.user.accesses[0].ended.seconds() == half, boost::test_tools::tolerance(2e-3));
  BOOST_TEST(s.took[0].seconds() == half, boost::test_tools::tolerance(2e-3));
  BOOST_TEST(s.memory.written == 4'000'000u);
}

BOOST_AUTO_TEST_CASE(pcie_packets_cost_the_user_too) {
  auto link = kLink;
  link.packet = pcie::Protocol().packet_format();
  Edge s(link, 4096);
  s.user.accesses.push_back({tlm::TLM_WRITE_COMMAND, Edge::address(1, 0), 256'000, sc_core::SC_ZERO_TIME});
  s.user.accesses.push_back({tlm::TLM_READ_COMMAND, Edge::address(1, 0), 256'000, sc_core::SC_ZERO_TIME});
  s.run();
  const auto& a = s.user.accesses;
  BOOST_TEST(a[0].ended.fs() == (Time::ns(200) + gb(50).time_for(1000 * 280)).fs());
  BOOST_TEST((a[1].ended - a[1].began).seconds() == (Time::ns(200 + 500 + 200) + gb(50).time_for(1000 * 276)).seconds(),
             boost::test_tools::tolerance(3e-3));  // the acks of the read requests
}

BOOST_AUTO_TEST_CASE(a_slow_target_slows_its_senders_through_the_buffers) {
  for (const bool annotates : {false, true}) {
    Edge s(kLink, 4000);
    s.memory.latency = ns(400);  // 4000 B in 400 ns: 10 GB/s
    s.memory.annotates = annotates;
    s.user.accesses.push_back({tlm::TLM_WRITE_COMMAND, Edge::address(kTarget, 0), 1'000'000, sc_core::SC_ZERO_TIME});
    s.run();
    // The first train is whole after 80 ns and two hops, then 250 accesses.
    BOOST_TEST(s.user.accesses[0].ended.fs() == Time::ns(280 + 250 * 400).fs());
    BOOST_TEST(s.plx.port(PortId(3)).counters.peak_queued_bytes <= 65'536u + 2 * 4000);
  }
}

BOOST_AUTO_TEST_CASE(a_target_that_refuses_ends_the_simulation) {
  Edge s(kLink, 4096);
  s.memory.size = 1000;
  s.send(Time(), 0, kTarget, 4096);
  BOOST_CHECK_THROW(sc_core::sc_start(), sc_core::sc_report);
}
