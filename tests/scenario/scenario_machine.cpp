#define BOOST_TEST_MODULE scenario_machine
#include <boost/test/unit_test.hpp>

#include <algorithm>

#include "sc_main/scenario/datasheets/datasheets.h"
#include "tests/support/machine_of.h"

using namespace railyard;
using namespace railyard::scenario;
using railyard::test::machine_of;

namespace {

std::string refusal_of(const std::string& yaml, const std::string& platform = "plx_box",
                       const std::vector<std::string>& roles = {}) {
  try {
    machine_of(yaml, platform, roles);
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_workload_without_roles_takes_groups_of_any_name_in_their_order) {
  const auto m = machine_of("machine: {groups: {west: {servers: 3, gpu: L20-48GB}, east_a2b: {}}}\n");
  BOOST_REQUIRE(m.groups.size() == 2u);
  BOOST_TEST(m.groups[0].name == "west");
  BOOST_TEST(m.groups[0].servers == 3u);
  BOOST_TEST(m.groups[0].gpu.name == "L20-48GB");
  BOOST_TEST(m.groups[1].name == "east_a2b");
  BOOST_TEST(m.groups[1].servers == 1u);
  BOOST_TEST(m.groups[1].gpu.name == "L40S");
}

BOOST_AUTO_TEST_CASE(without_groups_there_is_one_server) {
  const auto m = machine_of("machine: {}\n");
  BOOST_REQUIRE(m.groups.size() == 1u);
  BOOST_TEST(m.groups[0].name == "node");
  BOOST_TEST(m.groups[0].servers == 1u);
}

BOOST_AUTO_TEST_CASE(roles_keep_the_workloads_order_and_fill_in) {
  const auto m = machine_of("machine: {groups: {decode: {servers: 2}}}\n", "plx_box", {"prefill", "decode"});
  BOOST_REQUIRE(m.groups.size() == 2u);
  BOOST_TEST(m.groups[0].name == "prefill");
  BOOST_TEST(m.groups[0].servers == 1u);
  BOOST_TEST(m.groups[1].name == "decode");
  BOOST_TEST(m.groups[1].servers == 2u);
}

BOOST_AUTO_TEST_CASE(another_capacity_shows_cuda_the_same_share_of_it) {
  const auto hbm = [](const std::string& overrides) {
    const std::string yaml =
        "machine: {groups: {node: {gpu: H100-SXM5-80GB}}, overrides: {gpu: {hbm: {" + overrides + "}}}}\n";
    return machine_of(yaml, "dgx_h100").groups[0].gpu.hbm;
  };
  const auto plain = hbm("");
  BOOST_TEST(hbm("capacity_gb: 40").visible_gb == plain.visible_gb / 2);
  BOOST_TEST(hbm("capacity_gb: 40, visible_gb: 39").visible_gb == 39);
  BOOST_TEST(hbm("visible_gb: 39").capacity_gb == plain.capacity_gb);
}

BOOST_AUTO_TEST_CASE(groups_that_cannot_be_are_refused) {
  BOOST_TEST(refusal_of("machine: {groups: {prefil: {}}}\n", "plx_box", {"prefill", "decode"}) ==
             "s.yaml:1:20: error: machine.groups.prefil: the workload has no such group (did you mean 'prefill'?)");
  BOOST_TEST(refusal_of("machine: {groups: {}}\n") ==
             "s.yaml:1:19: error: machine.groups: is empty; accepted: at least one group");
  const std::string rule =
      " is not a valid name; accepted: at most 32 lower-case letters, digits and _, beginning with a letter and not "
      "ending in a digit";
  BOOST_TEST(refusal_of("machine: {groups: {h100: {}}}\n") == "s.yaml:1:20: error: machine.groups: 'h100'" + rule);
  BOOST_TEST(refusal_of("machine: {groups: {a.b: {}}}\n") == "s.yaml:1:20: error: machine.groups: 'a.b'" + rule);
  BOOST_TEST(refusal_of("machine: {groups: {node: {gpus: 4}}}\n").find("machine.groups.node.gpus: unknown key") !=
             std::string::npos);
  BOOST_TEST(refusal_of("machine: {groups: [node]}\n") ==
             "s.yaml:1:19: error: machine.groups: expected a mapping, got a list");
}

BOOST_AUTO_TEST_CASE(a_nic_brings_its_protocol_and_the_switch_it_meets) {
  const auto with = [](const std::string& nic) {
    return machine_of("machine: {plx: {datasheet: pex90144}, nic: {datasheet: " + nic + "}}\n");
  };
  BOOST_TEST(with("connectx6_hdr").ib_switch.name == "qm8700");
  BOOST_TEST(with("connectx8_xdr").ib_switch.name == "q3400");
  BOOST_TEST(with("connectx7_ndr").infiniband.packet_overhead_bytes == 8 + 12 + 4 + 2);
  // Ethernet, preamble and gap, IPv4, UDP, BTH, ICRC.
  BOOST_TEST(with("connectx7_roce").infiniband.packet_overhead_bytes == 18 + 20 + 20 + 8 + 12 + 4);
  BOOST_TEST(with("connectx7_roce").ib_switch.ethernet);
  // A cable runs at the slower of its ends.
  for (const std::string& nic : shipped_datasheets("nics")) {
    const auto m = with(nic);
    BOOST_TEST(m.ib_cable.gb_per_s == std::min(m.nic.gb_per_s, m.ib_switch.gb_per_s));
    BOOST_TEST(m.ib_switch.ethernet == (m.nic.protocol != "infiniband"));
    BOOST_TEST(m.nic_pcie.gb_per_s > m.nic.gb_per_s, nic << " has more network than PCIe");
    // Buffers and tags carry the rate over a round trip of a microsecond.
    constexpr double kRoundTripSeconds = 1e-6;
    BOOST_TEST(m.nic.read_tags * m.pcie.max_read_request_bytes > m.nic.gb_per_s * 1e9 * kRoundTripSeconds);
    BOOST_TEST(m.ib_switch.buffer_bytes > m.ib_cable.gb_per_s * 2 * (m.ib_cable.latency_ns + m.ib_switch.hop_ns));
    BOOST_TEST(m.nic.buffer_bytes > m.ib_cable.gb_per_s * 2 * (m.ib_cable.latency_ns + m.nic.receive_ns));
  }
  BOOST_TEST(refusal_of("machine: {nic: {datasheet: connectx7_roce}, network: {datasheet: qm9700}}\n") ==
             "s.yaml:1:54: error: machine.network: qm9700 switches InfiniBand; connectx7_roce speaks roce");
}

BOOST_AUTO_TEST_CASE(nics_of_a_server_are_the_boards_unless_written) {
  BOOST_TEST(machine_of("machine: {}\n").nics_per_server == 2u);
  BOOST_TEST(machine_of("machine: {plx: {nics_per_plx: 3}}\n").nics_per_server == 6u);
  BOOST_TEST(machine_of("machine: {nic: {per_server: 5}}\n").nics_per_server == 5u);
  BOOST_TEST(machine_of("machine: {nic: {per_server: 4}}\n", "dgx_a100").nics_per_server == 4u);
  BOOST_TEST(machine_of("machine: {}\n", "dgx_h100").nics_per_server == 8u);
  BOOST_TEST(refusal_of("machine: {nic: {per_server: 2}, plx: {nics_per_plx: 1}}\n") ==
             "s.yaml:1:29: error: machine.nic.per_server: cannot be combined with machine.plx.nics_per_plx; set only "
             "one of them");
}

BOOST_AUTO_TEST_CASE(a_rack_takes_gpus_with_c2c_and_nics_by_the_tray) {
  const auto m = machine_of("machine: {}\n", "gb200_nvl72");
  BOOST_TEST(m.groups[0].gpu_pcie.gb_per_s == 450.0);
  BOOST_TEST(m.nic_pcie.gb_per_s == 16 * m.pcie.gen5_lane_gb_per_s);
  BOOST_TEST((m.network == platforms::NetworkKind::leaf_spine));  // 72 NICs, 64 ports
  const auto xdr = machine_of("machine: {nic: {datasheet: connectx8_xdr}}\n", "gb200_nvl72");
  BOOST_TEST((xdr.network == platforms::NetworkKind::single_switch));
  BOOST_TEST(refusal_of("machine: {groups: {node: {gpu: B200-SXM-180GB}}}\n", "gb200_nvl72") ==
             "s.yaml:1:32: error: machine.groups.node.gpu: B200-SXM-180GB has the form sxm6; gb200_nvl72 holds "
             "grace_blackwell; machines that hold it: dgx_b200; machine.allow_any_gpu: true lets a what-if run");
  BOOST_TEST(
      refusal_of("machine: {nic: {per_server: 20}}\n", "gb200_nvl72") ==
      "s.yaml:1:29: error: machine.nic.per_server: 20 NICs cannot be divided evenly among the 18 trays of gb200_nvl72");
}

BOOST_AUTO_TEST_CASE(a_power_limit_is_at_least_a_quarter_of_the_boards) {
  const auto limit_of = [](const std::string& gpu, int watts) {
    return "machine: {groups: {node: {gpu: " + gpu +
           "}}, overrides: {gpu: {sm: {power_limit_w: " + std::to_string(watts) + "}}}}\n";
  };
  BOOST_TEST(machine_of(limit_of("H100-SXM5-80GB", 175), "dgx_h100").groups[0].gpu.sm.power_limit_w == 175);
  BOOST_TEST(refusal_of(limit_of("H100-SXM5-80GB", 174), "dgx_h100") ==
             "s.yaml:1:32: error: machine.groups.node.gpu: sm.power_limit_w: at least 175 W, a quarter of sm.power_w");
  BOOST_TEST(refusal_of(limit_of("V100-PCIe-32GB", 200), "plx_box") ==
             "s.yaml:1:32: error: machine.groups.node.gpu: sm.power_limit_w needs sm.power_w, which the datasheet of "
             "V100-PCIe-32GB does not have");
}

// For one run, the constants of kernels change in every group, whichever sheet its GPU has.
BOOST_AUTO_TEST_CASE(overrides_change_the_kernels_of_every_group) {
  const std::string groups = "machine: {groups: {a: {gpu: L40S}, b: {gpu: H100-PCIe-80GB}}";
  const auto plain = machine_of(groups + "}\n", "plx_box", {"a", "b"}).groups;
  const auto changed =
      machine_of(groups + ", overrides: {kernels: {prefill: {flash: {products_ratio: 1.5}}}}}\n", "plx_box", {"a", "b"})
          .groups;
  BOOST_TEST(plain[0].gpu.kernels.prefill.flash.name != plain[1].gpu.kernels.prefill.flash.name);
  for (std::size_t i = 0; i < 2; ++i) {
    BOOST_TEST(changed[i].gpu.kernels.prefill.flash.products_ratio == 1.5);
    BOOST_TEST(changed[i].gpu.kernels.prefill.flash.name == plain[i].gpu.kernels.prefill.flash.name);
    BOOST_TEST(changed[i].gpu.kernels.prefill.trtllm.products_ratio ==
               plain[i].gpu.kernels.prefill.trtllm.products_ratio);
  }
}

BOOST_AUTO_TEST_CASE(switches_add_if_they_can) {
  const auto network = [](const std::string& keys) {
    return "machine: {groups: {node: {servers: 2}}, network: {sharp: true" + keys + "}}\n";
  };
  BOOST_TEST(machine_of(network(""), "dgx_h100").sharp);
  BOOST_TEST(!machine_of("machine: {groups: {node: {servers: 2}}}\n", "dgx_h100").sharp);
  BOOST_TEST(refusal_of(network(", datasheet: sb7800"), "dgx_h100") ==
             "s.yaml:1:58: error: machine.network.sharp: sb7800 does not add; its datasheet has no aggregation_ns");
  BOOST_TEST(refusal_of(network(", kind: leaf_spine, tiers: 3"), "dgx_h100") ==
             "s.yaml:1:58: error: machine.network.sharp: needs one switch or two tiers; machine.network.tiers is 3");
}

BOOST_AUTO_TEST_CASE(a_gpus_links_spread_over_the_boards_switches) {
  using Planes = std::vector<std::uint32_t>;
  const auto planes = [](const std::string& gpu, const std::string& platform) {
    const auto m = machine_of("machine: {groups: {node: {gpu: " + gpu + "}}}\n", platform);
    return m.groups[0].nvlink_planes;
  };
  const auto same = [](const Planes& a, const Planes& b) { BOOST_TEST(a == b, boost::test_tools::per_element()); };
  same(planes("A100-SXM4-80GB", "dgx_a100"), {2, 2, 2, 2, 2, 2});
  same(planes("A800-SXM4-80GB", "dgx_a100"), {2, 2, 1, 1, 1, 1});
  same(planes("V100-SXM2-32GB", "dgx_a100"), {1, 1, 1, 1, 1, 1});
  same(planes("H20-SXM-96GB", "dgx_h100"), {5, 4, 4, 5});
  same(planes("H800-SXM5-80GB", "dgx_h100"), {2, 2, 2, 2});
  same(planes("B300-SXM-270GB", "dgx_b200"), {9, 9});
  same(planes("A100-SXM4-80GB", "hgx_a100_4gpu"), {4, 4, 4});
  same(planes("A800-SXM4-80GB", "hgx_a100_4gpu"), {2, 2, 2});
  same(planes("H100-SXM5-80GB", "hgx_h100_4gpu"), {6, 6, 6});
  BOOST_TEST(planes("A100-PCIe-80GB", "plx_box").empty());
  BOOST_TEST(refusal_of("machine: {groups: {node: {gpu: L40S}}}\n", "hgx_a100_4gpu") ==
             "s.yaml:1:32: error: machine.groups.node.gpu: L40S has the form pcie; hgx_a100_4gpu holds sxm2, sxm4; "
             "machines that hold it: plx_box; machine.allow_any_gpu: true lets a what-if run");
  BOOST_TEST(
      refusal_of("machine: {groups: {node: {gpu: A100-PCIe-80GB}}}\n", "dgx_a100") ==
      "s.yaml:1:32: error: machine.groups.node.gpu: A100-PCIe-80GB has the form pcie; dgx_a100 holds sxm2, sxm4; "
      "machines that hold it: plx_box; machine.allow_any_gpu: true lets a what-if run");
}

BOOST_AUTO_TEST_CASE(a_board_holds_gpus_of_its_forms) {
  const auto with = [](const std::string& gpu) { return "machine: {groups: {node: {gpu: " + gpu + "}}}\n"; };
  BOOST_TEST(refusal_of(with("H100-SXM5-80GB")) ==
             "s.yaml:1:32: error: machine.groups.node.gpu: H100-SXM5-80GB has the form sxm5; plx_box holds pcie; "
             "machines that hold it: dgx_h100, hgx_h100_4gpu; machine.allow_any_gpu: true lets a what-if run");
  BOOST_TEST(refusal_of(with("MI300X"), "dgx_h100") ==
             "s.yaml:1:32: error: machine.groups.node.gpu: MI300X has the form oam; dgx_h100 holds sxm5; no machine "
             "holds it, only workload.kind: kernel runs on it; machine.allow_any_gpu: true lets a what-if run");
  for (const auto& [board, gpu] : {std::pair{"dgx_a100", "H100-SXM5-80GB"}, std::pair{"dgx_h100", "A100-SXM4-80GB"},
                                   std::pair{"dgx_b200", "H100-SXM5-80GB"}, std::pair{"gb200_nvl72", "GH200-96GB"},
                                   std::pair{"dgx_h100", "L40S"}, std::pair{"hgx_a100_4gpu", "H100-SXM5-80GB"}})
    BOOST_TEST(refusal_of(with(gpu), board).find("has the form") != std::string::npos, board << " " << gpu);
}

BOOST_AUTO_TEST_CASE(a_what_if_takes_a_gpu_of_another_form_if_its_links_fit) {
  const auto with = [](const std::string& gpu) {
    return "machine: {allow_any_gpu: true, groups: {node: {gpu: " + gpu + "}}}\n";
  };
  BOOST_TEST(machine_of(with("H100-SXM5-80GB"), "plx_box").groups[0].nvlink_planes.empty());
  BOOST_TEST(machine_of(with("MI300X"), "plx_box").groups[0].gpu.name == "MI300X");
  // The twelve links of an A100, spread over four switches as eighteen are.
  const std::vector<std::uint32_t> expected{3, 3, 3, 3};
  const std::vector<std::uint32_t> planes = machine_of(with("A100-SXM4-80GB"), "dgx_h100").groups[0].nvlink_planes;
  BOOST_TEST(planes == expected, boost::test_tools::per_element());
  BOOST_TEST(refusal_of(with("L40S"), "dgx_h100").find("NVLinks to switches") != std::string::npos);
}
