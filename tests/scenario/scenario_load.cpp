// What a scenario means once loaded: shipped files, defaults, derived rates, what-ifs, --set.
#define BOOST_TEST_MODULE scenario_load
#include <boost/test/unit_test.hpp>

#include "sc_main/scenario/datasheets/datasheets.h"
#include "tests/scenario/scenario_support.h"
#include "workload/inference/service/serving_spec.h"

using namespace railyard;
using namespace railyard::test;
using workload::inference::ServingSpec;
using Layers = std::vector<std::uint32_t>;

BOOST_AUTO_TEST_CASE(shipped_plx_scenario) {
  const Scenario s = load_scenario(kPlxScenario, {}, "plx_box");
  BOOST_TEST(s.path == kPlxScenario);
  BOOST_TEST(s.platform == "plx_box");
  BOOST_TEST(s.model.name == "llama-3.1-70b");
  BOOST_TEST(s.machine.groups.size() == 2u);
  BOOST_TEST(s.machine.groups[0].name == "prefill");
  BOOST_TEST(s.machine.groups[1].name == "decode");
  BOOST_TEST(s.machine.groups[0].gpu.name == "L40S");
  BOOST_TEST(s.machine.groups[0].gpu.sm.count == 142u);
  BOOST_TEST(s.machine.board.pcie_switches == 2u);
  BOOST_TEST(s.machine.nics_per_server == 2u);
  BOOST_TEST(s.spec<ServingSpec>().listed->size() == 1u);
  BOOST_TEST(s.spec<ServingSpec>().listed->at(0).prompt_tokens == 1024u);
  BOOST_TEST(s.spec<ServingSpec>().listed->at(0).output_tokens == 9u);  // prefill's token and eight steps
  BOOST_TEST(s.spec<ServingSpec>().instances[0].whole->max_batched_tokens == 256u);
  BOOST_TEST(s.spec<ServingSpec>().instances[0].mapping.ranks() == 8u);
  BOOST_TEST(s.spec<ServingSpec>().instances[0].mapping.stage_layers == (Layers{40, 40}),
             boost::test_tools::per_element());
  BOOST_TEST(s.spec<ServingSpec>().instances[1].mapping.placement == (Layers{0, 1, 2, 3, 4, 5, 6, 7}),
             boost::test_tools::per_element());
  BOOST_TEST(s.fabric.transaction_bytes == 0u);
  BOOST_TEST(int(s.fabric.classes[std::size_t(TrafficClass::tp)].virtual_channel) == 0);
  BOOST_TEST(int(s.fabric.classes[std::size_t(TrafficClass::kv)].virtual_channel) == 1);
}

BOOST_AUTO_TEST_CASE(shipped_dgx_scenarios) {
  const Scenario h100 = load_scenario(kDgxScenario, {}, "dgx_h100");
  BOOST_TEST(h100.machine.board.nvlink_planes == (Layers{5, 4, 4, 5}), boost::test_tools::per_element());
  BOOST_TEST(h100.machine.nics_per_server == 8u);
  BOOST_TEST(h100.machine.groups[0].nvlink.gb_per_s == 25);
  BOOST_TEST(h100.spec<ServingSpec>().instances[0].mapping.tp == 8u);
  BOOST_TEST(h100.spec<ServingSpec>().listed->at(0).prompt_tokens == 4096u);
  const Scenario a100 = load_scenario(kSource + "/scenarios/dgx_a100_llama3_70b.yaml", {}, "dgx_a100");
  BOOST_TEST(a100.machine.board.nvlink_planes.size() == 6u);
  BOOST_TEST(a100.machine.ib_cable.gb_per_s == 25);  // HDR
  const Scenario tree = load_scenario(kSource + "/scenarios/dgx_h100_rail_optimized.yaml", {}, "dgx_h100");
  BOOST_TEST((tree.machine.network == platforms::NetworkKind::leaf_spine));
  BOOST_TEST(tree.machine.rail_optimized);
  BOOST_TEST(tree.machine.spines == 4u);
  BOOST_TEST(tree.machine.groups[1].servers == 2u);
  BOOST_TEST((tree.model.dtype == DataType::fp8));
  BOOST_TEST((tree.model.kv_dtype == DataType::fp8));
}

BOOST_AUTO_TEST_CASE(nic_rule_comparison_differs_in_the_rule_only) {
  const std::string folder = kSource + "/scenarios/nic_rule_comparison/";
  const Scenario modulo = load_scenario(folder + "modulo.yaml", {}, "plx_box");
  const Scenario nearest = load_scenario(folder + "nearest.yaml", {}, "plx_box");
  BOOST_TEST((modulo.spec<ServingSpec>().nic_rule == workload::inference::NicRule::modulo));
  BOOST_TEST((nearest.spec<ServingSpec>().nic_rule == workload::inference::NicRule::nearest));
  const auto keys_only = [&](const std::string& name) {
    std::string kept, line;
    std::istringstream lines(text_of(folder + name));
    while (std::getline(lines, line)) {
      if (line[0] != '#' && line.find("nic_rule") == std::string::npos) kept += line + "\n";
    }
    return kept;
  };
  BOOST_TEST(keys_only("modulo.yaml") == keys_only("nearest.yaml"));
}

BOOST_AUTO_TEST_CASE(defaults_for_everything_but_the_question) {
  const Scratch scratch;
  const Scenario s = scratch.load(small_scenario());
  BOOST_TEST(s.seed == 1u);
  BOOST_TEST(s.machine.groups[0].gpu.name == "L40S");
  BOOST_TEST(s.machine.nic.name == "connectx7_ndr");
  BOOST_TEST(s.machine.ib_switch.name == "qm9700");
  BOOST_TEST(s.machine.plx.name == "pex89144");
  BOOST_TEST((s.machine.uplink == platforms::Uplink::dual_root));
  BOOST_TEST((s.model.dtype == DataType::bf16));
  BOOST_TEST(s.spec<ServingSpec>().listed->size() == 1u);
  BOOST_TEST(s.spec<ServingSpec>().listed->at(0).output_tokens == 9u);
  BOOST_TEST(s.spec<ServingSpec>().instances[1].mapping.tp == 4u);  // as prefill
  BOOST_TEST(s.spec<ServingSpec>().instances[1].mapping.pp == 2u);
  BOOST_TEST(s.spec<ServingSpec>().instances.front().memory.memory_limit_ratio == 0.9);
  BOOST_TEST((s.spec<ServingSpec>().handoff == workload::inference::HandoffGrain::per_chunk));
  BOOST_TEST((s.spec<ServingSpec>().pp_send == workload::inference::PpSend::shard));
  BOOST_TEST(scratch.load(small_scenario(), {}, "dgx_h100").machine.groups[1].gpu.name == "H100-SXM5-80GB");
}

BOOST_AUTO_TEST_CASE(pcie_links_run_at_the_older_end) {
  const Scratch scratch;
  constexpr double kGen3 = 16 * 0.98462, kGen4 = 16 * 1.96923, kGen5 = 16 * 3.93846;
  const auto check = [](const Scenario& s, double gpu, double nic, double uplink) {
    BOOST_TEST(s.machine.gpu_pcie.gb_per_s == gpu, boost::test_tools::tolerance(1e-9));
    BOOST_TEST(s.machine.nic_pcie.gb_per_s == nic, boost::test_tools::tolerance(1e-9));
    BOOST_TEST(s.machine.plx_uplink.gb_per_s == uplink, boost::test_tools::tolerance(1e-9));
    BOOST_TEST(s.machine.plx_cascade.gb_per_s == uplink, boost::test_tools::tolerance(1e-9));
  };
  check(scratch.load_with({}), kGen4, kGen5, kGen5);  // L40S is Gen4
  check(scratch.load_with({"machine.plx.datasheet=pex8796"}), kGen3, kGen3, kGen3);
  check(scratch.load_with({"machine.groups.prefill.gpu=H100-PCIe-80GB"}), kGen5, kGen5, kGen5);
  check(scratch.load_with({"machine.nic.datasheet=connectx6_hdr"}), kGen4, kGen4, kGen5);
  BOOST_TEST(scratch.load_with({"machine.nic.datasheet=connectx6_hdr"}).machine.ib_cable.gb_per_s == 25);
}

BOOST_AUTO_TEST_CASE(groups_may_differ_in_gpu) {
  const Scratch scratch;
  const Scenario s =
      scratch.load_with({"machine.groups.decode.gpu=H100-PCIe-80GB", "machine.overrides.gpu_pcie.latency_ns=99"});
  BOOST_TEST(s.machine.groups[0].gpu.name == "L40S");
  BOOST_TEST(s.machine.groups[1].gpu.name == "H100-PCIe-80GB");
  BOOST_TEST(s.machine.groups[1].gpu_pcie.gb_per_s == 2 * s.machine.groups[0].gpu_pcie.gb_per_s);
  BOOST_TEST(s.machine.groups[0].gpu_pcie.latency_ns == 99);
  BOOST_TEST(s.machine.groups[1].gpu_pcie.latency_ns == 99);
}

BOOST_AUTO_TEST_CASE(overrides_change_what_they_name_only) {
  const Scratch scratch;
  const Scenario plain = scratch.load_with({});
  const Scenario s = scratch.load_with(
      {"machine.overrides.plx_uplink={gb_per_s: 60, latency_ns: 110}", "machine.overrides.gpu={hbm: {gb_per_s: 1000}}",
       "machine.overrides.pcie.max_payload_bytes=128", "machine.overrides.ib_switch.hop_ns=330"});
  BOOST_TEST(s.machine.plx_uplink.gb_per_s == 60);
  BOOST_TEST(s.machine.plx_uplink.latency_ns == 110);
  BOOST_TEST(s.machine.plx_uplink.buffer_bytes == plain.machine.plx_uplink.buffer_bytes);
  BOOST_TEST(s.machine.plx_cascade.gb_per_s == plain.machine.plx_cascade.gb_per_s);
  for (const auto& group : s.machine.groups) {
    BOOST_TEST(group.gpu.hbm.gb_per_s == 1000);
    BOOST_TEST(group.gpu.hbm.capacity_gb == plain.machine.groups[0].gpu.hbm.capacity_gb);
  }
  BOOST_TEST(s.machine.pcie.max_payload_bytes == 128);
  BOOST_TEST(s.machine.ib_switch.hop_ns == 330);
  // A what-if on a device reaches the links derived from it.
  BOOST_TEST(scratch.load_with({"machine.overrides.nic.gb_per_s=20"}).machine.ib_cable.gb_per_s == 20);
  BOOST_TEST(scratch.load_with({"machine.overrides.nic.gb_per_s=20", "machine.overrides.ib_cable.gb_per_s=30"})
                 .machine.ib_cable.gb_per_s == 30);
}

// In a file to the file, in --set to the current directory.
BOOST_AUTO_TEST_CASE(paths_are_relative_to_where_they_are_written) {
  const Scratch scratch;
  std::string sheet = text_of(kSource + "/platforms/datasheets/gpus/L40S.yaml");
  const std::string count = "count: 142";
  sheet.replace(sheet.find(count), count.size(), "count: 71");
  scratch.write("half.yaml", sheet);
  const Scenario s = scratch.load_with({"machine.groups.prefill.gpu=half.yaml"});
  BOOST_TEST(s.machine.groups[0].gpu.name == "half");
  BOOST_TEST(s.machine.groups[0].gpu.sm.count == 71u);
  BOOST_TEST(s.machine.groups[1].gpu.sm.count == 142u);

  std::filesystem::create_directories(scratch.path("below"));
  const std::string in_file =
      small_scenario() + "machine: {groups: {prefill: {gpu: ../half.yaml}, decode: {gpu: L40S}}}\n";
  scratch.write("below/s.yaml", in_file);
  const Scenario below = load_scenario("below/s.yaml", {"machine.groups.decode.gpu=half.yaml"}, "plx_box");
  for (const platforms::GroupSpec& group : below.machine.groups) BOOST_TEST(group.gpu.sm.count == 71u);
  // What the run writes names both absolutely, so it loads from anywhere, and writes itself again.
  scratch.write("resolved.yaml", below.resolved);
  std::filesystem::current_path("/");
  const Scenario again = load_scenario(scratch.path("resolved.yaml"), {}, "plx_box");
  for (const platforms::GroupSpec& group : again.machine.groups) BOOST_TEST(group.gpu.sm.count == 71u);
  BOOST_TEST(again.resolved == below.resolved);
  BOOST_TEST(again.name == "below/s.yaml");
  std::filesystem::current_path(scratch.path(""));
}

BOOST_AUTO_TEST_CASE(every_shipped_datasheet_loads) {
  const Scratch scratch;
  for (const auto& file : std::filesystem::directory_iterator(kSource + "/platforms/datasheets/gpus")) {
    const std::string name = file.path().stem().string();
    const gpu::GpuDatasheet gpu = scenario::load_gpu({name, "gpu", {}});
    BOOST_TEST(gpu.name == name);
    BOOST_TEST(!gpu.source.empty());
    BOOST_TEST(gpu.sm.flop_per_clock[std::size_t(DataType::fp16)] > 0);
    BOOST_TEST(!scenario::gpu_form({name, "gpu", {}}).empty());
  }
  for (const std::string name : {"pex89144", "pex88096", "pex8796"})
    BOOST_TEST(scratch.load_with({"machine.plx.datasheet=" + name}).machine.plx.hop_ns > 100);
  BOOST_TEST(scratch.load_with({"machine.network.datasheet=qm8700"}).machine.ib_switch.ports == 40u);
}

// A buffer smaller than rate x round trip would throttle the link that it is meant to keep busy.
BOOST_AUTO_TEST_CASE(shipped_buffers_cover_their_round_trips) {
  const Scratch scratch;
  for (const std::string platform :
       {"plx_box", "hgx_a100_4gpu", "hgx_h100_4gpu", "dgx_a100", "dgx_h100", "dgx_b200", "gb200_nvl72"}) {
    const platforms::MachineSpec m = scratch.load(small_scenario(), {"workload.prefill.pp=1"}, platform).machine;
    const auto covers = [](double buffer_bytes, double gb_per_s, double one_way_ns) {
      return buffer_bytes >= gb_per_s * 2 * one_way_ns;
    };
    const auto both_ways = [&](const platforms::LinkDatasheet& link, double hop_ns, double hop_buffer_bytes) {
      BOOST_TEST(covers(link.buffer_bytes, link.gb_per_s, link.latency_ns + hop_ns));
      BOOST_TEST(covers(hop_buffer_bytes, link.gb_per_s, link.latency_ns + hop_ns));
    };
    if (m.board.pcie_switches != 0) {
      for (const auto* link : {&m.gpu_pcie, &m.nic_pcie, &m.plx_uplink, &m.plx_cascade})
        both_ways(*link, m.plx.hop_ns, m.plx.buffer_bytes);
      both_ways(m.plx_uplink, m.root_complex.hop_ns, m.root_complex.buffer_bytes);
    } else {
      for (const auto* link : {&m.gpu_pcie, &m.nic_pcie})
        both_ways(*link, m.root_complex.hop_ns, m.root_complex.buffer_bytes);
    }
    BOOST_TEST(
        covers(m.socket_link.buffer_bytes, m.socket_link.gb_per_s, m.socket_link.latency_ns + m.root_complex.hop_ns));
    BOOST_TEST(covers(m.ib_cable.buffer_bytes, m.ib_cable.gb_per_s, m.ib_cable.latency_ns + m.ib_switch.hop_ns));
    BOOST_TEST(covers(m.ib_switch.buffer_bytes, m.ib_cable.gb_per_s, m.ib_cable.latency_ns + m.ib_switch.hop_ns));
    BOOST_TEST(covers(m.nic.buffer_bytes, m.ib_cable.gb_per_s, m.ib_cable.latency_ns + m.nic.receive_ns));
    if (m.board.nvlink_planes.empty() && !m.board.nvlink_mesh) continue;
    BOOST_TEST(covers(m.nvlink.buffer_bytes, m.nvlink.gb_per_s, m.nvlink.latency_ns + m.nvswitch.hop_ns));
    if (m.board.nvlink_mesh) continue;
    BOOST_TEST(covers(m.nvswitch.buffer_bytes, m.nvlink.gb_per_s, m.nvlink.latency_ns + m.nvswitch.hop_ns));
  }
}

BOOST_AUTO_TEST_CASE(decode_steps_and_output_tokens) {
  const Scratch scratch;
  const auto outputs = [&](const std::vector<std::string>& sets) {
    std::vector<std::uint32_t> tokens;
    const Scenario scenario = scratch.load_with(sets);
    for (const auto& request : *scenario.spec<ServingSpec>().listed) tokens.push_back(request.output_tokens);
    return tokens;
  };
  const std::string list = "workload.requests={list: [{prompt_tokens: 5, output_tokens: 7}, {prompt_tokens: 5}]}";
  const std::string full =
      "workload.requests={list: [{prompt_tokens: 5, output_tokens: 7}, {prompt_tokens: 5, output_tokens: 3}]}";
  BOOST_TEST(outputs({list}) == (Layers{7, 9}), boost::test_tools::per_element());
  BOOST_TEST(outputs({full, "workload.decode.steps=trace"}) == (Layers{7, 3}), boost::test_tools::per_element());
  BOOST_TEST(outputs({full, "workload.decode.steps=2"}) == (Layers{3, 3}), boost::test_tools::per_element());
  BOOST_TEST(outputs({"workload.decode.steps=0"}) == (Layers{1}), boost::test_tools::per_element());
  BOOST_TEST(outputs({"workload.requests.output_tokens=20"}) == (Layers{20}), boost::test_tools::per_element());
  BOOST_TEST(outputs({"workload.requests.count=3"}).size() == 3u);
}

BOOST_AUTO_TEST_CASE(listed_requests_go_by_arrival) {
  const Scratch scratch;
  const Scenario s = scratch.load_with(
      {"workload.requests={list: [{arrival_s: 17000.000000001, prompt_tokens: 1}, {arrival_s: 0.5, prompt_tokens: 2}, "
       "{prompt_tokens: 3}]}"});
  const auto& requests = *s.spec<ServingSpec>().listed;
  BOOST_TEST(requests[0].prompt_tokens == 3u);
  BOOST_TEST(requests[1].prompt_tokens == 2u);
  BOOST_TEST(requests[1].arrival.fs() == 500'000'000'000'000ull);
  BOOST_TEST(requests[2].prompt_tokens == 1u);
  BOOST_TEST(requests[2].arrival.seconds() == 17000.000000001, boost::test_tools::tolerance(1e-15));
}

BOOST_AUTO_TEST_CASE(stages_and_placement) {
  const Scratch scratch;
  const auto stages = [&](const std::vector<std::string>& sets) {
    return scratch.load_with(sets).spec<ServingSpec>().instances[0].mapping.stage_layers;
  };
  BOOST_TEST(stages({"workload.prefill={tp: 1, pp: 5}"}) == (Layers{7, 7, 6, 6, 6}), boost::test_tools::per_element());
  BOOST_TEST(stages({"workload.prefill.stage_layers=[20, 12]"}) == (Layers{20, 12}), boost::test_tools::per_element());
  const Layers backwards{7, 6, 5, 4, 3, 2, 1, 0}, straight{0, 1, 2, 3, 4, 5, 6, 7};
  const Scenario one = scratch.load_with({"workload.placement=[7, 6, 5, 4, 3, 2, 1, 0]"});
  BOOST_TEST(one.spec<ServingSpec>().instances[0].mapping.placement == backwards, boost::test_tools::per_element());
  BOOST_TEST(one.spec<ServingSpec>().instances[1].mapping.placement == straight, boost::test_tools::per_element());
  const Scenario other = scratch.load_with({"workload.placement={prefill: auto, decode: [7, 6, 5, 4, 3, 2, 1, 0]}"});
  BOOST_TEST(other.spec<ServingSpec>().instances[0].mapping.placement == straight, boost::test_tools::per_element());
  BOOST_TEST(other.spec<ServingSpec>().instances[1].mapping.placement == backwards, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(set_options) {
  const Scratch scratch;
  const std::string list = small_scenario() + "fabric: {transaction_bytes: auto}\n";
  const Scenario s = scratch.load(list, {"fabric.transaction_bytes=65536", "fabric.classes.pp.priority=3", "seed=7",
                                         "seed=9", "workload.requests={list: [{prompt_tokens: 1}, {prompt_tokens: 2}]}",
                                         "workload.requests.list.1.prompt_tokens=50"});
  BOOST_TEST(s.fabric.transaction_bytes == 65536u);
  BOOST_TEST(int(s.fabric.classes[std::size_t(TrafficClass::pp)].priority) == 3);
  BOOST_TEST(s.seed == 9u);  // in order
  BOOST_TEST(s.spec<ServingSpec>().listed->at(0).prompt_tokens == 1u);
  BOOST_TEST(s.spec<ServingSpec>().listed->at(1).prompt_tokens == 50u);
}

BOOST_AUTO_TEST_CASE(classes_of_traffic) {
  const Scratch scratch;
  std::string names;
  std::vector<std::string> settings;
  for (const TrafficClassFacts& c : kTrafficClasses) {
    BOOST_TEST_CONTEXT(c.name) {
      BOOST_TEST(&c == &kTrafficClasses[number(c.traffic_class)]);
      BOOST_TEST(c.defaults.virtual_channel < transport::kClassVcs);
      BOOST_TEST(c.defaults.weight >= 1u);
      BOOST_TEST(c.defaults.priority < transport::kPriorities);
    }
    names += c.name + std::string(" ");
    settings.push_back(std::string("fabric.classes.") + c.name + "={vc: 5, weight: 7, priority: 2}");
  }
  BOOST_TEST(names == "tp pp kv dp ep cp weights offload other ");
  for (const transport::ClassSpec& spec : scratch.load_with(settings).fabric.classes) {
    BOOST_TEST(int(spec.virtual_channel) == 5);
    BOOST_TEST(spec.weight == 7u);
    BOOST_TEST(int(spec.priority) == 2);
  }
}

// Setting one use of an anchor leaves the other alone.
BOOST_AUTO_TEST_CASE(set_does_not_reach_through_aliases) {
  const Scratch scratch;
  const Scenario s =
      scratch.load(small_scenario() + "machine:\n  groups:\n    prefill: &same {servers: 2}\n    decode: *same\n",
                   {"machine.groups.decode.servers=3"});
  BOOST_TEST(s.machine.groups[0].servers == 2u);
  BOOST_TEST(s.machine.groups[1].servers == 3u);
}

BOOST_AUTO_TEST_CASE(network_kinds) {
  const Scratch scratch;
  const auto network = [&](const std::string& written) {
    return scratch.load_with({"machine.network=" + written}).machine;
  };
  BOOST_TEST((network("{kind: single_switch}").network == platforms::NetworkKind::single_switch));
  BOOST_TEST(!network("{kind: leaf_spine}").rail_optimized);
  BOOST_TEST(network("{kind: leaf_spine}").spines == 0u);
  BOOST_TEST(network("{kind: rail_optimized}").rail_optimized);
  BOOST_TEST((network("{kind: rail_optimized}").network == platforms::NetworkKind::leaf_spine));
  BOOST_TEST((network("{kind: leaf_spine}").routing == infiniband::Routing::deterministic));
  BOOST_TEST((network("{kind: leaf_spine, routing: adaptive}").routing == infiniband::Routing::adaptive));
}
