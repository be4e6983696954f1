// Events of a scenario: what a derated link and a slow GPU do to a run.
#include "tests/support/prefill_run.h"
#include "tests/support/systemc_main.h"
#include "transport/recovery.h"

using namespace railyard;
using namespace railyard::test;

namespace {

const JobRow& chunk(const PrefillRun& run, std::uint32_t number) {
  return run.records.named("P_Rank_PP[0]_TP[0]_Chunk[" + std::to_string(number) + "]");
}

std::string refusal(const std::vector<std::string>& sets) {
  const Scenario scenario = tiny_scenario(sets);
  try {
    PrefillRun run(scenario);
  } catch (const InputError& e) {
    return e.what();
  }
  return "accepted";
}

}  // namespace

BOOST_AUTO_TEST_CASE(kernels_that_start_on_a_slow_gpu_take_longer) {
  const std::string at_end = "workload.handoff=at_end";  // nothing takes HBM from the kernels meanwhile
  PrefillRun plain(tiny_scenario({at_end}));
  plain.run();
  const JobRow second = chunk(plain, 1);
  // Halfway through the second chunk: what runs keeps its end, so at most one kernel's time is not doubled.
  const Time when = second.start + Time::fs((second.end - second.start).fs() / 2);
  char at[32];
  std::snprintf(at, sizeof at, "%.9f", when.seconds() * 1e6);
  PrefillRun slow(
      tiny_scenario({at_end, "events=[{at_us: " + std::string(at) + ", gpu: prefill0.gpu0, slow_ratio: 0.5}]"}));
  slow.run();
  const auto took = [](const PrefillRun& run, std::uint32_t c) {
    return (chunk(run, c).end - chunk(run, c).start).seconds();
  };
  BOOST_TEST(took(slow, 0) == took(plain, 0));
  BOOST_TEST(took(slow, 1) > 1.3 * took(plain, 1));
  BOOST_TEST(took(slow, 1) < 1.7 * took(plain, 1));
  BOOST_TEST(took(slow, 2) == 2 * took(plain, 2), boost::test_tools::tolerance(1e-9));
  BOOST_TEST(took(slow, 3) == 2 * took(plain, 3), boost::test_tools::tolerance(1e-9));
}

BOOST_AUTO_TEST_CASE(a_nic_that_trains_down_delays_the_handoff_and_nothing_before_it) {
  const std::vector<std::string> at_end = {"workload.handoff=at_end", "workload.decode.pp=1"};
  PrefillRun plain(tiny_scenario(at_end));
  plain.run();
  std::vector<std::string> sets = at_end;
  sets.push_back("events=[{at_us: 0, link: \"IB_NIC_P[0]_PCI\", rate_ratio: 0.05}]");
  PrefillRun slow(tiny_scenario(sets));
  slow.run();
  // A handoff that trickles takes less of the HBM beside the MLP and the head behind it.
  BOOST_TEST((slow.request().times.first_token <= plain.request().times.first_token));
  BOOST_TEST(slow.request().times.first_token.seconds() == plain.request().times.first_token.seconds(),
             boost::test_tools::tolerance(1e-3));
  const auto handoff = [](PrefillRun& run) { return run.records.of("Handoff_PP").at(0); };
  BOOST_TEST((handoff(slow).start == handoff(plain).start));
  // One rank, one message: the NIC's link is the bottleneck, so the handoff's time is its bytes at the new rate.
  const double rate = slow.simulation.machine().nic(NicId(0)).port(PortId(0)).receive_rate.gb_per_s() * 1e9;
  const auto took = [&](PrefillRun& run) { return (handoff(run).end - handoff(run).start).seconds(); };
  const double bytes = static_cast<double>(handoff(slow).bytes);
  BOOST_TEST(took(slow) > bytes / rate);
  BOOST_TEST(took(slow) < 1.15 * bytes / rate);  // completions carry headers
  BOOST_TEST(took(plain) < 0.2 * took(slow));
}

BOOST_AUTO_TEST_CASE(an_event_after_the_end_does_not_prolong_the_run) {
  PrefillRun plain(tiny_scenario());
  plain.run();
  const Time end = plain.simulation.end();
  struct : FreshKernel {
  } fresh;
  Records records;
  railyard::Simulation late(tiny_scenario({"events=[{at_us: 1.0e9, gpu: decode0.gpu0, slow_ratio: 0.5}, "
                                           "{at_us: 2.0e9, link: \"IB_Cable_D[0]\", rate_ratio: 0.5}]"}),
                            records);
  late.run({});
  BOOST_TEST(late.workload().done());
  BOOST_TEST((late.end() == end));
}

BOOST_AUTO_TEST_CASE(the_other_nic_of_the_server_takes_over) {
  const std::vector<std::string> two_ranks = {"workload.prefill.tp=2", "workload.handoff=at_end"};
  for (const char* link : {"IB_Cable_P[0]", "IB_NIC_P[0]_PCI", "IB_Cable_D[0]", "IB_NIC_D[0]_PCI"}) {
    std::vector<std::string> sets = two_ranks;
    sets.push_back("events=[{at_us: 1, link: \"" + std::string(link) + "\", fail: true}]");
    PrefillRun run(tiny_scenario(sets));
    run.run();
    platforms::Machine& machine = run.simulation.machine();
    const auto through = [&](std::uint32_t nic) {
      const transport::Device::Port& cable = machine.nic(NicId(nic)).port(PortId(infiniband::Nic::kNetworkPort));
      return cable.counters.payload_bytes + cable.peer->port(cable.peer_port).counters.payload_bytes;
    };
    Bytes handed_off = 0;
    for (const JobRow& r : run.records.of("Handoff_PP")) handed_off += r.bytes;
    const std::uint32_t first = std::string(link).find("_D[") == std::string::npos ? 0 : 2;  // NIC of the server
    BOOST_TEST(through(first) == 0u, link);
    BOOST_TEST(through(first + 1) >= handed_off, link);
  }
}

BOOST_AUTO_TEST_CASE(nothing_left_ends_the_run_with_who_cannot_go_on) {
  struct : FreshKernel {
  } fresh;
  Records records;
  railyard::Simulation run(tiny_scenario({"machine.plx.nics_per_plx=1",
                                          "events=[{at_us: 1, link: \"PLX_Uplink_P[0]\", fail: true}, "
                                          "{at_us: 2, link: \"IB_Cable_P[0]\", fail: true}]"}),
                           records);
  run.run({});
  BOOST_TEST(!run.workload().done());
  const auto& cut_off = run.fabric().recovery().undeliverable();
  BOOST_TEST_REQUIRE(cut_off.has_value());
  BOOST_TEST(cut_off->part_of == "Handoff_PP[0]_TP[0]_Chunk[0]");
  const std::string text = describe(*cut_off, run);
  BOOST_TEST(text.find("of kv from prefill0.gpu0 to decode0.gpu0, cannot be delivered") != std::string::npos, text);
  BOOST_TEST(text.find("IB_Cable_P[0] tx at 0.000002000 s") != std::string::npos, text);
}

BOOST_AUTO_TEST_CASE(a_lost_plane_leaves_the_others) {
  // Of 18 links in planes of 5, 4, 4 and 5, the second plane is lost for one GPU: its traffic has 14 left.
  const std::vector<std::string> grid = {"workload.prefill.tp=4"};
  PrefillRun plain(tiny_scenario(grid, "dgx_h100"));
  plain.run();
  std::vector<std::string> sets = grid;
  sets.push_back("events=[{at_us: 0, link: \"NVLink_P[0][0]_Plane[1]\", fail: true}]");
  PrefillRun run(tiny_scenario(sets, "dgx_h100"));
  run.run();
  const auto sent = [](PrefillRun& r, std::uint32_t rank, std::uint32_t plane) {
    return r.prefill_gpu(rank).port(r.prefill_gpu(rank).nvlink(plane)).counters.payload_bytes;
  };
  Bytes all = 0, all_plain = 0;
  for (std::uint32_t plane = 0; plane < 4; ++plane) {
    all += sent(run, 0, plane);
    all_plain += sent(plain, 0, plane);
  }
  BOOST_TEST(all == all_plain);
  BOOST_TEST(sent(run, 0, 1) == 0u);
  BOOST_TEST(static_cast<double>(sent(run, 0, 0)) == 5. / 14 * static_cast<double>(all),
             boost::test_tools::tolerance(0.01));
  BOOST_TEST(sent(run, 1, 1) > 0u);  // to those that still have the plane
  BOOST_TEST((run.request().times.first_token > plain.request().times.first_token));
}

BOOST_AUTO_TEST_CASE(names_that_the_machine_has_not) {
  BOOST_TEST(
      refusal({"events=[{at_us: 1, gpu: prefill0.gpu9, slow_ratio: 0.5}]"}).find("(did you mean 'prefill0.gpu") !=
      std::string::npos);
  BOOST_TEST(
      refusal({"events=[{at_us: 1, link: \"IB_NIC_P[7]_PCI\", rate_ratio: 0.5}]"}).find("no link 'IB_NIC_P[7]_PCI'") !=
      std::string::npos);
  BOOST_TEST(refusal({"events=[{at_us: 1, link: \"prefill0.nic0.pcie\", direction: rx, rate_ratio: 0.5}]"}) ==
             "accepted");
}
