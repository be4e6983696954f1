// PCIe flow control: headers and data of posted, non-posted and completion packets apart. Rates are credits per round trip,
// exactly; what waits for one kind's credits holds up no other kind; an endpoint always takes what it has asked for.
#include "pcie/pcie.h"
#include "tests/support/machine_run.h"
#include "tests/support/simulation.h"
#include "tests/support/systemc_main.h"

using namespace railyard;
using test::gb;
using test::Simulation;
namespace tt = boost::test_tools;

namespace {

constexpr Time kLatency = Time::ns(300), kCreditLatency = Time::ns(100);  // a credit comes round in 400 ns
constexpr std::size_t kPosted = 0, kNonPosted = 1, kCompletion = 2;

/// 32 GB/s with TLPs of up to 256 B and no DLLPs, so that only credits hold anything up.
transport::LinkDirection pcie_link(Bytes posted, Bytes non_posted = 0, Bytes completion = 0, Bytes buffer = 1 << 20) {
  transport::LinkDirection link = test::ideal(gb(32), kLatency, buffer, kCreditLatency);
  pcie::Protocol protocol;
  protocol.dllp_bytes = 0;
  protocol.max_read_request_bytes = 512;
  link.packet = protocol.packet_format();
  link.headers = {posted, non_posted, completion};
  return link;
}

/// From node 0 to node 1, `bytes` in TLPs of `payload`; the time after the link's latency.
Time write_time(const transport::LinkDirection& link, Bytes bytes, Bytes payload, Bytes cut, bool fluid = false) {
  Simulation s(cut);
  test::MemoryNode& a = s.node();
  a.set_engine_payload(payload);
  Simulation::join(a, s.node(), link, link);
  if (fluid) s.fabric.model_as_fluid();
  s.send(Time(), 0, 1, bytes);
  s.run();
  BOOST_TEST(s.took[0].fs() == s.alone[0].fs());
  return s.took[0] - kLatency;
}

transport::Message read_of(transport::Window reader, transport::Window memory, Bytes bytes) {
  transport::Message message;
  message.source = reader;
  message.destination = memory;
  message.kind = transport::MessageKind::read;
  message.bytes = bytes;
  return message;
}

}  // namespace

BOOST_AUTO_TEST_CASE(posted_headers_bound_small_writes_at_headers_over_round_trip) {
  // 16 headers in 400 ns: 25 ns a TLP, where 32 B payload take 1.75 ns of the line. In one train or many, trains or fluid.
  for (const Bytes cut : {32, 96, 1024, 3200, 64'000})
    for (const bool fluid : {false, true}) {
      BOOST_TEST_INFO("trains of " << cut << (fluid ? ", fluid" : ""));
      BOOST_TEST(write_time(pcie_link(16), 1000 * 32, 32, cut, fluid).fs() == (Time::ns(25) * 1000).fs());
    }
  // Flags of many queues share them.
  Simulation s;
  test::MemoryNode& a = s.node();
  Simulation::join(a, s.node(), pcie_link(16), pcie_link(16));
  for (std::uint32_t n = 0; n < 200; ++n) s.send(Time(), 0, 1, 8, 0, n);
  s.run();
  for (std::uint32_t n = 0; n < 200; ++n) BOOST_TEST(s.landed[n].fs() == (kLatency + Time::ns(25) * (n + 1)).fs());
}

BOOST_AUTO_TEST_CASE(headers_bound_up_to_the_line_and_no_further) {
  // TLPs of 256 + 24 B take 8.75 ns: 400 / 8.75 = 45.7 of them fill the round trip.
  constexpr Bytes kTlps = 1000;
  for (const Bytes headers : {1, 2, 7, 45, 46, 64, 252}) {
    const double each_ns = std::max(8.75, 400.0 / static_cast<double>(headers));
    BOOST_TEST(write_time(pcie_link(headers), kTlps * 256, 256, 4096).seconds() == kTlps * each_ns * 1e-9,
               tt::tolerance(1e-9));
  }
}

BOOST_AUTO_TEST_CASE(data_credits_count_payload_in_units_of_16_bytes) {
  // 20 B of payload take two units, 256 B sixteen; the header takes none.
  constexpr Bytes kBuffer = 1600;
  BOOST_TEST(write_time(pcie_link(0, 0, 0, kBuffer), 1000 * 20, 20, 2000).fs() ==
             Time::ns(400).fs() * (1000 * 32) / kBuffer);
  BOOST_TEST(write_time(pcie_link(0, 0, 0, kBuffer), 1000 * 256, 256, 2560).fs() ==
             Time::ns(400).fs() * (1000 * 256) / kBuffer);
}

BOOST_AUTO_TEST_CASE(non_posted_requests_hold_up_neither_writes_nor_completions) {
  // One non-posted credit: node 0 asks for 512 B every 400 ns. Node 1 reads from node 0 and node 0 writes to node 1 all the same.
  const auto run = [](bool asks) {
    Simulation s(4096);
    test::MemoryNode& a = s.node();
    Simulation::join(a, s.node(), pcie_link(64, 1, 64), pcie_link(64, 64, 64));
    s.send(Time::us(1), 0, 1, 400'000);
    s.send(Time::us(1), read_of(1, 0, 400'000));
    if (asks) s.send(Time(), read_of(0, 1, 20 * 512));
    s.run();
    return std::vector<Time>(s.took.begin(), s.took.end());
  };
  const auto alone = run(false), beside = run(true);
  // Of the line they take 20 requests of 24 B; the data that comes back goes the other way.
  for (const std::size_t i : {0u, 1u}) BOOST_TEST(beside[i].seconds() == alone[i].seconds(), tt::tolerance(0.001));
  // A train of 8 requests waits for all its credits, as in the port rule: 20 requests are 19 round trips and the way.
  BOOST_TEST(beside[2].seconds() >= 19 * 400e-9);
  BOOST_TEST(beside[2].seconds() <= 21 * 400e-9 + 1e-6);
}

BOOST_AUTO_TEST_CASE(completions_and_requests_pass_writes_that_wait_for_credit) {
  // Node 0's writes to node 2 pile up behind a link of a hundredth the rate, until the switch's input buffer is full. Node 1 reads
  // node 0 over the same link, and node 0 reads node 1.
  const auto run = [](bool writes) {
    Simulation s(1024);
    transport::Switch& sw = s.add_switch();
    transport::LinkDirection slow = pcie_link(32, 32, 32, 8192);
    slow.rate = Rate::bytes_per_second(320'000'000);
    for (int i = 0; i < 2; ++i) Simulation::attach(s.node(), sw, pcie_link(32, 32, 32, 8192));
    Simulation::attach(s.node(), sw, slow);
    s.send(Time::us(50), read_of(1, 0, 64'000));
    s.send(Time::us(100), read_of(0, 1, 64'000));
    if (writes) s.send(Time(), 0, 2, 100'000);
    s.run();
    if (writes) BOOST_TEST(s.landed[2].seconds() > 300e-6);
    return std::vector<Time>(s.took.begin(), s.took.begin() + 2);
  };
  const auto alone = run(false), beside = run(true);
  for (const std::size_t i : {0u, 1u}) BOOST_TEST(beside[i].seconds() == alone[i].seconds(), tt::tolerance(0.02));
}

BOOST_AUTO_TEST_CASE(an_endpoint_takes_its_completions_whatever_its_buffer) {
  // 800 B and two headers of each kind: writes crawl at two TLPs a round trip, completions come at the line's rate.
  transport::LinkDirection link = pcie_link(2, 0, 2, 800);
  BOOST_TEST(write_time(link, 100 * 256, 256, 1024).fs() == (Time::ns(200) * 100).fs());
  link.sinks_responses = true;
  Simulation s(4096);
  Simulation::join(s.node(), s.node(), link, link);
  s.send(Time(), read_of(0, 1, 1000 * 256));
  s.run();
  const Time completions = gb(32).time_for(1000 * (256 + 20));
  BOOST_TEST((s.took[0] >= completions + kLatency * 2));
  BOOST_TEST((s.took[0] <= completions + kLatency * 2 + Time::ns(2)));
}

BOOST_AUTO_TEST_CASE(machines_advertise_what_their_rate_needs_and_endpoints_endless_completions) {
  test::MachineRun s("machine: {groups: {node: {gpu: L40S}}}\n");
  const auto& gpu = s.machine.gpu(GpuId(0));
  const transport::Device::Port& up = gpu.port(gpu.pcie());
  const transport::Device::Port& down = up.peer->port(up.peer_port);
  // Gen4 x16, 31.5 GB/s: 64 and 72 headers of a Gen2 port of 8 GB/s, in proportion.
  BOOST_TEST(up.egress.link().headers[kPosted] == 252u);
  BOOST_TEST(up.egress.link().headers[kNonPosted] == 284u);
  BOOST_TEST(up.egress.link().headers[kCompletion] == 252u);
  BOOST_TEST(!up.egress.link().sinks_responses);
  BOOST_TEST(down.egress.link().sinks_responses);
}

BOOST_AUTO_TEST_CASE(a_machine_with_few_credits_is_held_to_them) {
  // GPU 0 writes to GPU 1 below one switch: 128 B a TLP; its link's credits come round in 150 + 115 + 150 ns.
  const auto rate = [](const std::string& overrides) {
    test::MachineRun s("machine: {groups: {node: {gpu: L40S}}, overrides: {" + overrides + "}}\n");
    for (const Bytes bytes : {1'000'000, 5'000'000}) s.send(Time::ms(bytes / 1'000'000), 0, 1, bytes);
    s.run();
    return 4e6 / (s.took[1] - s.took[0]).seconds();
  };
  BOOST_TEST(rate("gpu_pcie: {posted_headers: 32}") == 32 * 128 / 415e-9, tt::tolerance(1e-3));
  BOOST_TEST(rate("") == 31.50768e9 * 128 / 152, tt::tolerance(1e-3));
}
