// GPUDirect RDMA over two NICs, writes and reads: reads over PCIe, the network, writes over PCIe, coupled train by train.
#include "tests/support/simulation.h"
#include "tests/support/systemc_main.h"

#include "infiniband/infiniband.h"
#include "pcie/pcie.h"

using namespace railyard;
using test::gb;
using test::ideal;
using test::Simulation;
namespace tt = boost::test_tools;

namespace {

/// memory 2i - PCIe switch - NIC i - InfiniBand switch; a second memory below each PCIe switch is 2i + 1.
struct Nics : Simulation {
  struct Parameters {
    transport::LinkDirection pcie, cable;
    infiniband::NicTiming timing;
    Time memory;
  };
  static constexpr transport::Window kFirstNicWindow = 100;

  Nics(std::size_t count, const Parameters& p, Bytes cut, const transport::VcPlan& plan = {}) : Simulation(cut, plan) {
    transport::Switch& ib = add_switch(transport::Switch::DecodeBy::lid);
    for (std::uint32_t i = 0; i < count; ++i) {
      transport::Switch& plx = add_switch();
      MemoryNode& first = node(p.memory);
      MemoryNode& second = node(p.memory);
      infiniband::Nic& nic =
          nics.emplace_back(("nic" + std::to_string(i)).c_str(), fabric.context(), kFirstNicWindow + i, i, p.timing);
      fabric.add_device(nic);
      attach(first, plx, p.pcie);
      attach(second, plx, p.pcie);
      plx.decoder().map(nic.window(), join(nic, plx, p.pcie, p.pcie).second);
      ib.decoder().map(i, join(nic, ib, p.cable, p.cable).second);
    }
    for (std::uint32_t from = 0; from < 2 * count; ++from)
      for (std::uint32_t to = 0; to < 2 * count; ++to)
        if (from / 2 != to / 2) nodes[from].route(to, nics[from / 2], to / 2);
  }
  /// Reads the memory `from` into the memory `to`, whose NIC asks.
  std::size_t read(Time when, transport::Window from, transport::Window to, Bytes bytes) {
    transport::Message message;
    message.kind = transport::MessageKind::read;
    message.source = to;
    message.destination = from;
    message.bytes = bytes;
    return send(when, message);
  }
  const transport::PortCounters& sent_to_network(std::size_t nic) {
    return nics[nic].port(PortId(infiniband::Nic::kNetworkPort)).counters;
  }
  std::deque<infiniband::Nic> nics;
  using MemoryNode = test::MemoryNode;
};

Nics::Parameters ideal_links() {
  Nics::Parameters p;
  p.pcie = ideal(gb(64), Time::ns(100));
  p.cable = ideal(gb(50), Time::ns(300));
  p.timing = {Time::ns(100), Time::ns(250), 0, 0};
  p.memory = Time::ns(500);
  return p;
}

/// PCIe 5.0 x16 and NDR with their packets, buffers of 64 KiB and NIC limits of 256 KiB.
Nics::Parameters real_links() {
  Nics::Parameters p = ideal_links();
  p.pcie.rate = Rate::gb_per_s(63.01536);
  p.pcie.buffer_bytes = 65'536;
  p.pcie.credit_latency = Time::ns(50);
  p.pcie.packet = pcie::Protocol().packet_format();
  p.cable.buffer_bytes = 262'144;
  p.cable.credit_latency = Time::ns(100);
  p.cable.packet = infiniband::Protocol().packet_format();
  p.timing.read_bytes = p.timing.buffer_bytes = 262'144;
  return p;
}

// Read request out, memory, completion back, NIC, cable twice, PCIe twice.
constexpr Time kIdealLatency = Time::ns(100 + 2 * 100 + 500 + 2 * 100 + 250 + 2 * 300 + 2 * 100);

// A read's request before that: NIC, cable twice. The doorbell is the requester's.
constexpr Time kIdealReadLatency = kIdealLatency + Time::ns(250 + 2 * 300);

}  // namespace

BOOST_AUTO_TEST_CASE(a_read_takes_its_request_and_then_a_write_without_a_doorbell) {
  for (const Bytes cut : {1000, 4096, 65'536}) {
    Nics s(2, ideal_links(), cut);
    s.read(Time::ns(77), 2, 0, 5'000'000);
    s.run();
    BOOST_TEST(s.took[0].fs() == (kIdealReadLatency + Time::us(100)).fs());
    BOOST_TEST(s.alone[0].fs() == s.took[0].fs());
  }
}

BOOST_AUTO_TEST_CASE(uncontended_time_of_a_read_is_within_a_packet_with_real_parameters) {
  const Time packet = gb(50).time_for(4096 + 26);
  for (const Bytes cut : {0, 4096, 65'536}) {
    for (const Bytes bytes : {1, 4096, 65'536, 1'000'000, 20'000'000}) {
      Nics s(2, real_links(), cut);
      s.read(Time(), 2, 0, bytes);
      s.run();
      BOOST_TEST_INFO(bytes << " bytes in " << cut << ": " << s.took[0].fs() << " fs, expected " << s.alone[0].fs());
      BOOST_TEST((s.alone[0] <= s.took[0] + packet && s.took[0] <= s.alone[0] + packet));
    }
  }
}

BOOST_AUTO_TEST_CASE(requests_of_reads_cross_one_way_and_their_bytes_the_other) {
  constexpr Bytes kMessage = 1'000'000, kReads = 3;
  const auto wire_bytes = [&](bool reads) {
    Nics s(2, real_links(), 4096);
    for (Bytes i = 0; i < kReads; ++i) reads ? s.read(Time(), 2, 0, kMessage) : s.send(Time(), 2, 0, kMessage);
    s.run();
    const transport::PortCounters &requests = s.sent_to_network(0), &network = s.sent_to_network(1),
                                  &memory = s.nodes[2].port(PortId(0)).counters;
    BOOST_TEST(requests.payload_bytes == 0u);
    BOOST_TEST(requests.transactions == (reads ? kReads : 0u));
    BOOST_TEST(requests.wire_bytes == requests.transactions * (8 + 12 + 16 + 4 + 2));  // LRH, BTH, RETH, ICRC, VCRC
    BOOST_TEST(network.payload_bytes == kReads * kMessage);
    BOOST_TEST(memory.payload_bytes == kReads * kMessage);
    return std::pair(network.wire_bytes, memory.wire_bytes);
  };
  BOOST_TEST((wire_bytes(true) == wire_bytes(false)));
}

BOOST_AUTO_TEST_CASE(many_reads_are_as_fast_as_writes) {
  const auto seconds = [](bool reads, Bytes cut) {
    Nics s(2, real_links(), cut);
    for (int i = 0; i < 16; ++i) reads ? s.read(Time(), 2, 0, 1'000'000) : s.send(Time(), 2, 0, 1'000'000);
    s.run();
    return s.took.back().seconds();
  };
  const double request = (kIdealReadLatency - kIdealLatency).seconds();
  for (const Bytes cut : {4096, 65'536})
    BOOST_TEST(seconds(true, cut) == seconds(false, cut) + request, tt::tolerance(1e-4));
}

BOOST_AUTO_TEST_CASE(two_nics_read_one_memory_on_queue_pairs_of_one_number) {
  Nics s(3, real_links(), 4096);
  s.read(Time(), 4, 0, 5'000'000);
  s.read(Time(), 4, 2, 5'000'000);
  s.run();
  const double both = 10e6 / (50e9 * 4096 / (4096 + 26));
  for (const Time t : s.took) BOOST_TEST(t.seconds() == both, tt::tolerance(0.02));
}

BOOST_AUTO_TEST_CASE(nothing_is_staged_whole_on_the_way) {
  for (const Bytes cut : {1000, 4096, 65'536}) {
    Nics s(2, ideal_links(), cut);
    s.send(Time::ns(77), 0, 2, 5'000'000);
    s.run();
    BOOST_TEST(s.took[0].fs() == (kIdealLatency + Time::us(100)).fs());
    BOOST_TEST(s.alone[0].fs() == s.took[0].fs());
  }
}

BOOST_AUTO_TEST_CASE(uncontended_time_is_within_a_packet_with_real_parameters) {
  const Time packet = gb(50).time_for(4096 + 26);
  for (const Bytes cut : {0, 4096, 65'536}) {
    for (const Bytes bytes : {0, 1, 4096, 65'536, 1'000'000, 20'000'000}) {
      Nics s(2, real_links(), cut);
      s.send(Time(), 0, 2, bytes);
      s.run();
      BOOST_TEST_INFO(bytes << " bytes in " << cut << ": " << s.took[0].fs() << " fs, expected " << s.alone[0].fs());
      BOOST_TEST((s.alone[0] <= s.took[0] + packet && s.took[0] <= s.alone[0] + packet));
    }
  }
}

BOOST_AUTO_TEST_CASE(rate_is_the_least_of_tags_pcie_and_network) {
  constexpr Bytes kMessage = 20'000'000;
  const auto rate = [&](const Nics::Parameters& p, Bytes cut) {
    Nics s(2, p, cut);
    s.send(Time(), 0, 2, kMessage);
    s.run();
    // Steady rate: from the first byte's arrival, which a lone byte tells.
    Nics one(2, p, cut);
    one.send(Time(), 0, 2, 1);
    one.run();
    return static_cast<double>(kMessage) / (s.took[0] - one.took[0]).seconds();
  };
  for (const Bytes cut : {4096, 12'288, 65'536}) {
    Nics::Parameters p = real_links();
    BOOST_TEST(rate(p, cut) == 50e9 * 4096 / (4096 + 26), tt::tolerance(2e-3));
    p.cable.rate = gb(100);
    BOOST_TEST(rate(p, cut) == 63.01536e9 * 256 / (256 + 24), tt::tolerance(2e-3));  // the receiving NIC's writes
    // 8 tags x 4 KiB, held from the request until its completion is whole.
    p.timing.read_bytes = 8 * 4096;
    const double held = (200 + 500 + 200) * 1e-9 + (4096 + 16 * 20) / 63.01536e9;
    BOOST_TEST(rate(p, cut) == 8 * 4096 / held, tt::tolerance(2e-3));
  }
}

BOOST_AUTO_TEST_CASE(a_slow_network_holds_the_reads_to_the_nics_buffer) {
  Nics::Parameters p = real_links();
  p.cable.rate = gb(5);
  Nics s(2, p, 4096);
  s.send(Time(), 0, 2, 4'000'000);
  int sampled = 0;
  for (const Time when : {Time::us(200), Time::us(500)})
    s.at(when, [&] {  // the reads run ahead of the network by the buffer, and no more than a train further
      const Bytes ahead =
          s.nodes[0].port(PortId(0)).counters.payload_bytes - s.nics[0].port(PortId(1)).counters.payload_bytes;
      BOOST_TEST(ahead <= p.timing.buffer_bytes + 4096);
      BOOST_TEST(ahead >= p.timing.buffer_bytes - 4096);
      ++sampled;
    });
  s.run();
  BOOST_TEST(s.took[0].seconds() == s.alone[0].seconds(), tt::tolerance(1e-3));
  BOOST_TEST(sampled == 2);
}

BOOST_AUTO_TEST_CASE(a_small_message_on_a_queue_pair_of_its_own_waits_microseconds) {
  Nics s(3, real_links(), 0);
  s.send(Time(), 0, 2, 256 << 20);
  s.send(Time::ms(1), 0, 4, 65'536);
  s.send(Time::ms(2), 1, 2, 65'536);
  s.send(Time::ms(3), 0, 2, 65'536, 0, 1);
  s.run();
  BOOST_TEST((s.took[0] > Time::ms(5)));
  for (std::size_t i = 1; i < 4; ++i)
    BOOST_TEST((s.took[i] <= s.alone[i] + Time::us(8)), "took " << s.took[i].seconds());
}

BOOST_AUTO_TEST_CASE(two_queue_pairs_share_a_nic_equally_and_finish_on_time) {
  Nics s(2, real_links(), 4096);
  s.send(Time(), 0, 2, 5'000'000);
  s.send(Time(), 1, 3, 5'000'000);
  s.run();
  const double both = 10e6 / (50e9 * 4096 / (4096 + 26));
  for (const Time t : s.took) BOOST_TEST(t.seconds() == both, tt::tolerance(0.02));
}

BOOST_AUTO_TEST_CASE(incast_of_two_nics_shares_the_receivers_port) {
  Nics s(3, real_links(), 4096);
  s.send(Time(), 0, 2, 5'000'000);
  s.send(Time(), 4, 3, 5'000'000);
  s.run();
  const double both = 10e6 / (50e9 * 4096 / (4096 + 26));
  for (const Time t : s.took) BOOST_TEST(t.seconds() == both, tt::tolerance(0.02));
}

BOOST_AUTO_TEST_CASE(classes_share_a_nic_by_weight) {
  transport::VcPlan plan;
  plan.assign(0, {0, 1, 0});
  plan.assign(1, {1, 3, 0});
  for (const bool tags_bind : {false, true}) {
    Nics::Parameters p = real_links();
    if (tags_bind) p.timing.read_bytes = 8 * 4096;
    Nics s(2, p, 4096, plan);
    s.send(Time(), 0, 2, 6'000'000, 0);
    s.send(Time(), 0, 2, 6'000'000, 1);
    s.run();
    BOOST_TEST(s.took[1].seconds() / s.took[0].seconds() == 2.0 / 3, tt::tolerance(0.02));
  }
}

BOOST_AUTO_TEST_CASE(a_channel_blocked_in_the_network_does_not_stop_another) {
  transport::VcPlan plan;
  plan.assign(0, {0, 1, 0});
  plan.assign(1, {1, 1, 0});
  Nics s(5, real_links(), 4096, plan);
  for (const transport::Window w : {4, 6, 8}) s.send(Time(), w, 2, 5'000'000, 0);
  s.send(Time(), 0, 2, 5'000'000, 0);  // a quarter of NIC 1's port
  const std::size_t other = s.send(Time::us(100), 0, 4, 1'000'000, 1);
  s.run();
  // It shares NIC 0 with a flow that takes a quarter of it.
  BOOST_TEST(s.took[other].seconds() == s.alone[other].seconds() * 4 / 3, tt::tolerance(0.1));
}

BOOST_AUTO_TEST_CASE(messages_both_ways_through_one_nic) {
  Nics s(2, real_links(), 4096);
  s.send(Time(), 0, 2, 5'000'000);
  s.send(Time(), 2, 0, 5'000'000);
  s.run();
  for (std::size_t i = 0; i < 2; ++i) BOOST_TEST(s.took[i].seconds() == s.alone[i].seconds(), tt::tolerance(0.02));
}
