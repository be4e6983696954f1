// Refusals: one line with file:line:column (or the --set option), the key, what was wrong and what is accepted.
#define BOOST_TEST_MODULE scenario_errors
#include <boost/test/unit_test.hpp>

#include "tests/scenario/scenario_support.h"

using namespace railyard;
using namespace railyard::test;

namespace {

/// The small scenario with one line more.
std::string with(const std::string& more) { return small_scenario() + more; }

}  // namespace

BOOST_AUTO_TEST_CASE(unknown_keys_name_the_nearest) {
  const Scratch s;
  BOOST_TEST(s.refusal(with("machne: {}\n")) == "s.yaml:6:1: error: machne: unknown key (did you mean 'machine'?)");
  BOOST_TEST(s.refusal(with("machine:\n  plx: {uplnk: dual_root}\n")) ==
             "s.yaml:7:9: error: machine.plx.uplnk: unknown key (did you mean 'uplink'?)");
  BOOST_TEST(s.refusal(with("fabric: {classes: {weigths: {vc: 1}}}\n")) ==
             "s.yaml:6:20: error: fabric.classes.weigths: unknown key (did you mean 'weights'?)");
  BOOST_TEST(s.refusal(with("fabric: {classes: {ddp: {vc: 1}}}\n")) ==
             "s.yaml:6:20: error: fabric.classes.ddp: unknown key (did you mean 'dp'?)");
  BOOST_TEST(s.refusal(with("machine: {overrides: {plx_uplnk: {latency_ns: 1}}}\n")) ==
             "s.yaml:6:23: error: machine.overrides.plx_uplnk: unknown key (did you mean 'plx_uplink'?)");
  BOOST_TEST(s.refusal(with("machine: {overrides: {gpu: {hbm: {gb_per_sec: 1}}}}\n")) ==
             "s.yaml:6:35: error: machine.overrides.gpu.hbm.gb_per_sec: wrong unit; the key is 'gb_per_s', in GB/s "
             "(1e9 bytes per second, one direction)");
  BOOST_TEST(s.refusal(with("machine: {groups: {trainer: {}}}\n")) ==
             "s.yaml:6:20: error: machine.groups.trainer: the workload has no such group; accepted: prefill, decode");
}

BOOST_AUTO_TEST_CASE(wrong_units_name_the_right_key) {
  const Scratch s;
  BOOST_TEST(s.refusal_of_set("workload.requests.prompt_token_s=5") ==
             "--set workload.requests.prompt_token_s=5: error: workload.requests.prompt_token_s: wrong unit; the key "
             "is 'prompt_tokens', in tokens");
  BOOST_TEST(s.refusal(with("machine: {overrides: {ib_cable: {gbps: 400}}}\n")) ==
             "s.yaml:6:34: error: machine.overrides.ib_cable.gbps: wrong unit; the key is 'gb_per_s', in GB/s (1e9 "
             "bytes per second, one direction)");
  BOOST_TEST(
      s.refusal(with("machine: {overrides: {ib_cable: {latency_us: 1}}}\n")) ==
      "s.yaml:6:34: error: machine.overrides.ib_cable.latency_us: wrong unit; the key is 'latency_ns', in nanoseconds");
  BOOST_TEST(
      s.refusal(with("machine: {overrides: {ib_cable: {latency: 1}}}\n")) ==
      "s.yaml:6:34: error: machine.overrides.ib_cable.latency: wrong unit; the key is 'latency_ns', in nanoseconds");
  BOOST_TEST(
      s.refusal(with("machine: {overrides: {ib_cable: {latency_ns: 200 ns}}}\n")) ==
      "s.yaml:6:46: error: machine.overrides.ib_cable.latency_ns: expected a number (nanoseconds), got '200 ns'");
  BOOST_TEST(s.refusal_of_set("workload.requests={list: [{arrival_ms: 3, prompt_tokens: 4}]}") ==
             "--set workload.requests={list: [{arrival_ms: 3, prompt_tokens: 4}]}: error: "
             "workload.requests.list.0.arrival_ms: wrong unit; "
             "the key is 'arrival_s', in seconds");
}

BOOST_AUTO_TEST_CASE(wrong_types) {
  const Scratch s;
  const auto chunk = [&](const std::string& value) {
    std::string text = small_scenario() + "  chunk_tokens: " + value + "\n";
    return s.refusal(text);
  };
  const std::string at = "s.yaml:6:17: error: workload.chunk_tokens: ";
  for (const std::string value : {"eight", "4096.0", "1e3", "0x10", "0o17", "010", "1_000", ".5", "~x", "true", "+",
                                  "-x", "12a", ".inf", ".nan"}) {
    BOOST_TEST(chunk(value) == at + "expected an integer (tokens), got '" + value + "'");
  }
  BOOST_TEST(chunk("'256'") == at + "expected an integer (tokens), got the quoted text '256'");
  BOOST_TEST(chunk("[1]") == at + "expected an integer (tokens), got a list");
  BOOST_TEST(chunk("{a: 1}") == at + "expected an integer (tokens), got a mapping");
  BOOST_TEST(chunk("~") == at + "expected an integer (tokens), got nothing");
  BOOST_TEST(chunk("-1") == at + "'-1' is out of range; accepted: 1 to 16777216 (tokens)");
  BOOST_TEST(chunk("0") == at + "'0' is out of range; accepted: 1 to 16777216 (tokens)");
  BOOST_TEST(chunk("99999999999999999999999") ==
             at + "'99999999999999999999999' is out of range; accepted: 1 to 16777216 (tokens)");
  BOOST_TEST(chunk("+512") == "accepted");
  BOOST_TEST(s.refusal(with("machine: 3\n")) == "s.yaml:6:10: error: machine: expected a mapping, got '3'");
  BOOST_TEST(s.refusal(with("machine: {network: {rail_optimized: yes}}\n")) ==
             "s.yaml:6:37: error: machine.network.rail_optimized: expected true or false, got 'yes'");
  BOOST_TEST(s.refusal_of_set("workload.prefill.stage_layers=16") ==
             "--set workload.prefill.stage_layers=16: error: workload.prefill.stage_layers: expected a list of "
             "integers, got '16'");
  BOOST_TEST(s.refusal_of_set("workload.prefill.stage_layers=[16, x]") ==
             "--set workload.prefill.stage_layers=[16, x]: error: workload.prefill.stage_layers.1: expected an "
             "integer, got 'x'");
}

BOOST_AUTO_TEST_CASE(numbers_where_floats_are_expected) {
  const Scratch s;
  const auto ratio = [&](const std::string& value) { return s.refusal(with("  memory_limit_ratio: " + value + "\n")); };
  const std::string at = "s.yaml:6:23: error: workload.memory_limit_ratio: ";
  for (const std::string value : {"0.5", "5e-1", "1", "+.5", "1.0"}) BOOST_TEST(ratio(value) == "accepted");
  for (const std::string value : {".nan", "nan", "inf", ".inf", "-.inf", "0x1", "0.5x", "infinity", "e1"}) {
    BOOST_TEST(ratio(value) == at + "expected a number (a ratio), got '" + value + "'");
  }
  for (const std::string value : {"0", "-0.5", "1.1", "1e999", "-1e999", "1e-999"}) {
    BOOST_TEST(ratio(value) == at + "'" + value + "' is out of range; accepted: 1e-06 to 1 (a ratio)");
  }
}

BOOST_AUTO_TEST_CASE(choices) {
  const Scratch s;
  BOOST_TEST(s.refusal(with("  nic_rule: modula\n")) ==
             "s.yaml:6:13: error: workload.nic_rule: unknown value 'modula'; accepted: modulo, nearest (did you mean "
             "'modulo'?)");
  BOOST_TEST(s.refusal(with("fabric: {fidelity: fluids}\n")) ==
             "s.yaml:6:20: error: fabric.fidelity: unknown value 'fluids'; accepted: train, fluid, auto (did you mean "
             "'fluid'?)");
  BOOST_TEST(s.refusal(with("fabric: {transaction_bytes: big}\n")) ==
             "s.yaml:6:29: error: fabric.transaction_bytes: expected an integer (bytes) or 'auto', got 'big'");
  BOOST_TEST(s.refusal(with("fabric: {transaction_bytes: 63}\n")) ==
             "s.yaml:6:29: error: fabric.transaction_bytes: '63' is out of range; accepted: 64 to 1073741824 (bytes)");
  BOOST_TEST(s.refusal(with("fabric: {classes: {kv: {vc: 7}}}\n")) ==
             "s.yaml:6:29: error: fabric.classes.kv.vc: '7' is out of range; accepted: 0 to 5");
  BOOST_TEST(s.refusal(with("events: [{at_us: 1}]\n")) ==
             "s.yaml:6:10: error: events.0: needs exactly one of: link, gpu, instance");
  BOOST_TEST(s.refusal(with("events: [{at_us: 1, link: a}]\n")) ==
             "s.yaml:6:10: error: events.0: needs exactly one of: rate_ratio, fail: true");
  BOOST_TEST(
      s.refusal(with("events: [{at_us: 1, link: a, rate_ratio: 1, slow_ratio: 0.5}]\n")) ==
      "s.yaml:6:57: error: events.0.slow_ratio: is accepted only for a gpu; for a link: rate_ratio, or fail: true");
  BOOST_TEST(s.refusal(with("events: [{at_us: 1, gpu: a, slow_ratio: 0}]\n")) ==
             "s.yaml:6:41: error: events.0.slow_ratio: '0' is out of range; accepted: 1e-06 to 1 (a ratio)");
  BOOST_TEST(s.refusal(with("compute: {profile: p.csv}\n")) ==
             "s.yaml:6:20: error: compute.profile: no folder 'p.csv'; expected a profile bundle, with tp<N>/dense.csv "
             "and others");
  BOOST_TEST(s.refusal(with("events: []\ncompute: {profile: null}\n")) == "accepted");
  BOOST_TEST(s.refusal(with("machine: {nvlink_bridge: pairs}\n")) ==
             "s.yaml:6:26: error: machine.nvlink_bridge: L40S of group prefill does not support NVLink bridges");
  BOOST_TEST(s.refusal(with("machine: {network: {routing: ecmp}}\n")) ==
             "s.yaml:6:30: error: machine.network.routing: needs machine.network.kind: leaf_spine");
  BOOST_TEST(s.refusal(with("schema_version: 2\n")) ==
             "s.yaml:6:17: error: schema_version: '2' is out of range; accepted: 1");
}

BOOST_AUTO_TEST_CASE(missing_keys) {
  const Scratch s;
  BOOST_TEST(s.refusal("seed: 1\n") == "s.yaml:1:1: error: workload: is required; the workload of the run");
  BOOST_TEST(s.refusal(small_scenario().substr(small_scenario().find("workload:"))) ==
             "s.yaml:1:1: error: model: is required by this workload.kind");
  BOOST_TEST(s.refusal("model: {}\n") ==
             "s.yaml:1:8: error: model.config: is required; HuggingFace config.json with the model's shape");
  BOOST_TEST(s.refusal_of_set("workload.prefill={pp: 2}") ==
             "--set workload.prefill={pp: 2}: error: workload.prefill.tp: is required; tensor-parallel ranks; must "
             "divide the attention heads");
  BOOST_TEST(
      s.refusal_of_set("workload.requests={}") ==
      "--set workload.requests={}: error: workload.requests: is empty; accepted: count, prompt_tokens, output_tokens");
  BOOST_TEST(
      s.refusal_of_set("workload.requests={count: 2}") ==
      "--set workload.requests={count: 2}: error: workload.requests.prompt_tokens: is required; tokens in each prompt");
  BOOST_TEST(
      s.refusal_of_set("workload.requests.file=t.csv") ==
      "--set workload.requests.file=t.csv: error: workload.requests.file: is not accepted with the other keys here; "
      "accepted with them: "
      "count, prompt_tokens, output_tokens");
  BOOST_TEST(
      s.refusal_of_set("workload.requests={list: []}") ==
      "--set workload.requests={list: []}: error: workload.requests.list: is empty; accepted: at least one request");
  BOOST_TEST(s.refusal(with("  decode: {steps: trace}\n")) ==
             "s.yaml:4:13: error: workload.requests: has no output_tokens; workload.decode.steps: trace needs them");
}

BOOST_AUTO_TEST_CASE(platform_must_match) {
  const Scratch s;
  BOOST_TEST(
      s.refusal("platform: dgx_h100\n" + small_scenario()) ==
      "s.yaml:1:11: error: platform: the scenario is for dgx_h100, this executable is plx_box; run it with dgx_h100");
  BOOST_TEST(
      s.refusal("platform: dgx_h10\n" + small_scenario()) ==
      "s.yaml:1:11: error: platform: unknown value 'dgx_h10'; accepted: dgx_a100, dgx_b200, dgx_h100, gb200_nvl72, "
      "hgx_a100_4gpu, hgx_h100_4gpu, plx_box (did you mean 'dgx_h100'?)");
  BOOST_TEST(s.refusal(with("machine: {plx: {switches: 3}}\n")) ==
             "s.yaml:6:27: error: machine.plx.switches: 3 PCIe switches cannot divide the 8 GPUs of a server evenly; "
             "accepted: 0, 1, 2, 4 or 8");
  BOOST_TEST(s.refusal(with("machine: {plx: {switches: 0, uplink: cascaded}}\n")) ==
             "s.yaml:6:38: error: machine.plx.uplink: needs PCIe switches; machine.plx.switches is 0");
  BOOST_TEST(s.refusal(with("machine: {plx: {uplink: cascaded}}\n"), {}, "dgx_h100") ==
             "s.yaml:6:25: error: machine.plx.uplink: dgx_h100 has a fixed board; accepted only on plx_box");
  BOOST_TEST(s.refusal(with("machine: {plx: {datasheet: pex90144}}\n"), {}, "gb200_nvl72") ==
             "s.yaml:6:28: error: machine.plx.datasheet: needs PCIe switches; gb200_nvl72 has none");
  BOOST_TEST(s.refusal(with("machine: {plx: {board: g493_zb1}}\n")) ==
             "s.yaml:6:24: error: machine.plx.board: no datasheet 'g493_zb1'; shipped: esc8000a_e13p, g493_zb0, "
             "wrx90_ws_evo; or a path to a .yaml file (did you mean 'g493_zb0'?)");
  BOOST_TEST(s.refusal(with("machine: {plx: {board: g493_zb0, acs: true}}\n")) ==
             "s.yaml:6:39: error: machine.plx.acs: needs PCIe switches; machine.plx.board has none");
  const std::string root = "root_complex: {generation: 5, hop_ns: 100, buffer_bytes: 65536}\n";
  s.write(
      "three.yaml",
      "source: a test\nboard: {pcie_switches: 3, nics: 2, gpu: L40S, nic: connectx7_ndr, cpu: epyc_genoa}\n" + root);
  BOOST_TEST(
      s.refusal(with("machine: {plx: {board: three.yaml}}\n"))
          .find("three.yaml:2:9: error: board.pcie_switches: 3 PCIe switches cannot divide the 8 GPUs of a server "
                "evenly; accepted: 0, 1, 2, 4 or 8") != std::string::npos);
  s.write("rack.yaml",
          "source: a test\nboard: {trays: 2, nics: 2, gpu: L40S, nic: connectx7_ndr, cpu: epyc_genoa}\n" + root);
  BOOST_TEST(
      s.refusal(with("machine: {plx: {board: rack.yaml}}\n")).find("rack.yaml:2:9: error: board.trays: unknown key") !=
      std::string::npos);
  BOOST_TEST(s.refusal(with("machine: {groups: {decode: {gpu: L40S}}}\n"), {}, "dgx_h100") ==
             "s.yaml:6:34: error: machine.groups.decode.gpu: L40S has the form pcie; dgx_h100 holds sxm5; machines "
             "that hold it: plx_box; machine.allow_any_gpu: true lets a what-if run");
  BOOST_TEST(s.refusal(with("machine: {network: {spines: 2}}\n")) ==
             "s.yaml:6:29: error: machine.network.spines: needs machine.network.kind: leaf_spine");
}

BOOST_AUTO_TEST_CASE(the_model_must_fit_the_split) {
  const Scratch s;
  BOOST_TEST(s.refusal_of_set("workload.prefill.tp=3") ==
             "--set workload.prefill.tp=3: error: workload.prefill.tp: 3 does not divide the 32 attention heads of "
             "llama-3.1-8b");
  BOOST_TEST(s.refusal(with("  decode: {tp: 5}\n")) ==
             "s.yaml:6:16: error: workload.decode.tp: 5 does not divide the 32 attention heads of llama-3.1-8b");
  BOOST_TEST(s.refusal(with("  decode: {pp: 33}\n")) ==
             "s.yaml:6:16: error: workload.decode.pp: 33 is more than the 32 layers of llama-3.1-8b");
  BOOST_TEST(
      s.refusal(with("  decode: {tp: 16, pp: 1}\n")) ==
      "s.yaml:6:16: error: workload.decode.tp: tp 16 x pp 1 needs 16 GPUs; the decode group has 8 (1 server of 8); "
      "set machine.groups.decode.servers to 2 or more");
  BOOST_TEST(s.refusal(with("  decode: {stage_layers: [16, 17]}\n")) ==
             "s.yaml:6:26: error: workload.decode.stage_layers: the sum is 33; llama-3.1-8b has 32 layers");
  BOOST_TEST(s.refusal(with("  decode: {stage_layers: [32]}\n")) ==
             "s.yaml:6:26: error: workload.decode.stage_layers: has 1 stage; workload.decode.pp is 2");
  BOOST_TEST(s.refusal(with("  decode: {stage_layers: [32, 0]}\n")) ==
             "s.yaml:6:31: error: workload.decode.stage_layers.1: '0' is out of range; accepted: 1 to 4096");
  const std::string odd =
      R"({"hidden_size": 96, "num_hidden_layers": 2, "num_attention_heads": 12, "num_key_value_heads": 4, "intermediate_size": 64, "vocab_size": 10})";
  s.write("odd.json", odd);
  BOOST_TEST(s.refusal(small_scenario(), {"model.config=odd.json", "workload.prefill={tp: 6, pp: 1}"}) ==
             "--set workload.prefill={tp: 6, pp: 1}: error: workload.prefill.tp: 6 neither divides nor is a multiple "
             "of the 4 KV heads of odd");
}

BOOST_AUTO_TEST_CASE(placement) {
  const Scratch s;
  BOOST_TEST(s.refusal(with("  placement: [0, 1]\n")) ==
             "s.yaml:6:14: error: workload.placement: lists 2 GPUs; the prefill group runs 8 ranks");
  BOOST_TEST(s.refusal(with("  placement: [0, 1, 2, 3, 4, 5, 6, 6]\n")) ==
             "s.yaml:6:36: error: workload.placement.7: GPU 6 is listed twice; each GPU holds one rank");
  BOOST_TEST(s.refusal(with("  placement: {decode: [0, 1, 2, 3, 4, 5, 6, 8]}\n")) ==
             "s.yaml:6:45: error: workload.placement.decode.7: no GPU 8; the decode group has GPUs 0 to 7");
  BOOST_TEST(s.refusal(with("  placement: somewhere\n")) ==
             "s.yaml:6:14: error: workload.placement: expected a list of integers, got 'somewhere'");
}

BOOST_AUTO_TEST_CASE(duplicate_keys_at_any_depth) {
  const Scratch s;
  BOOST_TEST(s.refusal(with("seed: 1\nseed: 1\n")) == "s.yaml:7:1: error: duplicate key 'seed'; first given at line 6");
  BOOST_TEST(s.refusal(with("machine: {groups: {prefill: {servers: 1, servers: 2}}}\n")) ==
             "s.yaml:6:42: error: duplicate key 'servers'; first given at line 6");
  BOOST_TEST(s.refusal_of_set("machine={a: 1, a: 2}") == "--set machine={a: 1, a: 2}: error: duplicate key 'a'");
}

BOOST_AUTO_TEST_CASE(not_a_scenario) {
  const Scratch s;
  BOOST_TEST(s.refusal("") == "s.yaml:1:1: error: the file is empty");
  BOOST_TEST(s.refusal("# nothing\n\n") == "s.yaml:1:1: error: the file is empty");
  BOOST_TEST(s.refusal("- 1\n") == "s.yaml:1:1: error: expected a mapping of scenario keys, got a list");
  BOOST_TEST(s.refusal("---\n~\n") == "s.yaml:2:1: error: expected a mapping of scenario keys, got nothing");
  BOOST_TEST(s.refusal("a: 1\n---\nb: 2\n") == "s.yaml:3:1: error: a second YAML document; one is expected");
  BOOST_TEST(s.refusal("a:\n\tb: 1\n") == "s.yaml:2:1: error: a tab in the indentation; use spaces");
  BOOST_TEST(s.refusal("a: [1, 2\n") == "s.yaml:1:4: error: not valid YAML: end of sequence flow not found");
  BOOST_TEST(s.refusal("a: \"x\n# c\n") == "s.yaml:2:4: error: not valid YAML: illegal EOF in scalar");
  BOOST_TEST(s.refusal("a: b: c\n") == "s.yaml:1:5: error: not valid YAML: illegal map value");
  BOOST_TEST(s.refusal("? [1]\n: 2\n") == "s.yaml:1:3: error: a key that is not a word");
  BOOST_TEST(s.refusal("a: \xff\n") == "s.yaml:1:4: error: not UTF-8 text");
  BOOST_TEST(s.refusal(std::string("a: \0b\n", 7)) == "s.yaml:1:4: error: a control character in the text");
  BOOST_TEST(s.refusal("a: !!int 3\n") ==
             "s.yaml:1:4: error: a YAML tag, 'tag:yaml.org,2002:int'; values here have no tags");
  BOOST_TEST(s.refusal("a: *b\n") == "s.yaml:1:4: error: not valid YAML: the referenced anchor is not defined");
  BOOST_TEST(s.refusal("a: &b [*b]\n") == "s.yaml:1:8: error: an alias inside the value that it stands for");
  BOOST_TEST(s.refusal("\"a\\nb\": 1\n").find("s.yaml:1:1: error: a\\x0ab: unknown key") == 0u);
}

BOOST_AUTO_TEST_CASE(bombs_are_refused_before_they_go_off) {
  const Scratch s;
  std::string bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n";
  for (int i = 1; i < 60; ++i) {
    const std::string alias = "*a" + std::to_string(i - 1);
    bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + alias;
    for (int k = 1; k < 10; ++k) bomb += "," + alias;
    bomb += "]\n";
  }
  BOOST_TEST(s.refusal(bomb) == "s.yaml:5:46: error: more than 100000 values, counting what aliases stand for");
  std::string chain = "a0: &a0 [x]\n";
  for (int i = 1; i < 80; ++i)
    chain += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [*a" + std::to_string(i - 1) + "]\n";
  BOOST_TEST(s.refusal(chain).find("error: values nested more than 64 deep") != std::string::npos);
  BOOST_TEST(s.refusal("a: " + std::string(100000, '[')).find("error: values nested more than 64 deep") !=
             std::string::npos);
  BOOST_TEST(s.refusal(std::string(2 << 20, '#')) ==
             "s.yaml:1:1: error: cannot read 's.yaml': it is longer than 1048576 bytes");
}

BOOST_AUTO_TEST_CASE(missing_files) {
  const Scratch s;
  BOOST_CHECK_EXCEPTION(load_scenario("no_such.yaml", {}, "plx_box"), InputError, [](const InputError& error) {
    return error.what() ==
           std::string("no_such.yaml:1:1: error: cannot read 'no_such.yaml': No such file or directory");
  });
  BOOST_TEST(s.refusal("model: {config: m.json}\nworkload:\n  kind: disaggregated_prefill\n  requests: {prompt_tokens: "
                       "1}\n  prefill: {tp: 1, pp: 1}\n") ==
             "s.yaml:1:17: error: model.config: cannot read 'm.json': No such file or directory");
  BOOST_TEST(s.refusal_of_set("model.config=.") ==
             "--set model.config=.: error: model.config: cannot read '.': it is a directory");
  BOOST_TEST(
      s.refusal_of_set("machine.nic.datasheet=cx7") ==
      "--set machine.nic.datasheet=cx7: error: machine.nic.datasheet: no datasheet 'cx7'; shipped: "
      "connectx5_edr, connectx5_roce, connectx6_hdr, connectx6_roce, connectx7_ndr, connectx7_roce, connectx8_xdr, "
      "efa_100g, efa_200g, efa_400g; "
      "or a path to a .yaml file");
  BOOST_TEST(s.refusal_of_set("machine.nic.datasheet=connectx7").find("(did you mean 'connectx7_ndr'?)") !=
             std::string::npos);
  BOOST_TEST(s.refusal_of_set("machine.nic.datasheet=./mine.yaml") ==
             "--set machine.nic.datasheet=./mine.yaml: error: machine.nic.datasheet: cannot read './mine.yaml': No "
             "such file or directory");
}

BOOST_AUTO_TEST_CASE(faulty_user_datasheets) {
  const Scratch s;
  const std::string use = "machine.nic.datasheet=nic.yaml";
  const std::string good =
      "protocol: roce\nnetwork: sn5600\ngb_per_s: 50\npcie_generation: 5\ndoorbell_ns: 1\ntransmit_ns: 1\nreceive_ns: "
      "1\nread_tags: 64\nbuffer_bytes: "
      "4096\n";
  s.write("nic.yaml", "source: me\n" + good);
  BOOST_TEST(s.refusal_of_set(use) == "accepted");
  s.write("nic.yaml", good);
  BOOST_TEST(s.refusal_of_set(use) == "nic.yaml:1:1: error: source: is required; where the values come from");
  s.write("nic.yaml", "source: me\nrate: 3\n" + good);
  BOOST_TEST(s.refusal_of_set(use).find("nic.yaml:2:1: error: rate: unknown key") == 0u);
  s.write("nic.yaml", "source: me\ngb_per_s: 50\n");
  BOOST_TEST(s.refusal_of_set(use) == "nic.yaml:1:1: error: pcie_generation: is required; PCIe generation");
  s.write("nic.yaml", "source: me\n" + good + "pcie_lanes: 0\n");
  BOOST_TEST(s.refusal_of_set(use) == "nic.yaml:11:13: error: pcie_lanes: '0' is out of range; accepted: 1 to 32");
}

BOOST_AUTO_TEST_CASE(what_divides_is_not_too_small) {
  const Scratch s;
  const auto override_of = [&](const std::string& value) { return s.refusal_of_set("machine.overrides." + value); };
  const auto is_refused = [&](const std::string& value, const std::string& accepted) {
    return override_of(value).find("is out of range; accepted: " + accepted) != std::string::npos;
  };
  for (const std::string key : {"gpu_pcie.gb_per_s", "pcie.gen4_lane_gb_per_s", "gpu.hbm.gb_per_s", "gpu.sm.clock_mhz",
                                "gpu.l2.bytes_per_sm_clock"}) {
    for (const std::string value : {"0", "1e-300", "1e-9"})
      BOOST_TEST(is_refused(key + "=" + value, "1e-06 to "), key + "=" + value);
    BOOST_TEST(override_of(key + "=1e-6") == "accepted", key);
  }
  BOOST_TEST(is_refused("plx.buffer_bytes=0.3", "at least 1"));
  BOOST_TEST(is_refused("pcie.dllp_interval_bytes=1e-9", "at least 1"));
  // Nothing and too little are not the same.
  BOOST_TEST(is_refused("root_complex.far_peer_gb_per_s=1e-300", "0, or 1e-06 to "));
  BOOST_TEST(is_refused("nic_pcie.buffer_bytes=0.4", "0, or at least 1"));
  BOOST_TEST(is_refused("gpu_pcie.posted_headers=0.5", "0, or 1 to 65536"));
  for (const std::string key : {"root_complex.far_peer_gb_per_s", "nic_pcie.buffer_bytes", "gpu_pcie.posted_headers"})
    BOOST_TEST(override_of(key + "=0") == "accepted", key);
  // A slow link advertises few headers, not as many as anyone likes.
  BOOST_TEST(
      s.load_with(
           {"machine.overrides.pcie={gen3_lane_gb_per_s: 1e-5, gen4_lane_gb_per_s: 1e-5, gen5_lane_gb_per_s: 1e-5}"})
          .machine.plx_uplink.posted_headers == 1);
}

BOOST_AUTO_TEST_CASE(messages_are_one_line_of_utf8) {
  BOOST_TEST(printable("a\tb\x7f\n") == "a\\x09b\\x7f\\x0a");
  BOOST_TEST(printable("caf\xc3\xa9 \xe4\xb8\xad \xf0\x9f\x9a\x82") == "caf\xc3\xa9 \xe4\xb8\xad \xf0\x9f\x9a\x82");
  BOOST_TEST(
      printable("\xff \xc3 \xe4\xb8 \xc0\xaf \xed\xa0\x80 \xf4\x90\x80\x80") ==
      "\\xff \\xc3 \\xe4\\xb8 \\xc0\\xaf \\xed\\xa0\\x80 \\xf4\\x90\\x80\\x80");  // broken, overlong, surrogate, beyond
  BOOST_TEST(
      printable("\xc2\x85 \xe2\x80\xa8 \xe2\x80\xae \xef\xbb\xbf") ==
      "\\xc2\\x85 \\xe2\\x80\\xa8 \\xe2\\x80\\xae \\xef\\xbb\\xbf");  // next line, line separator, right to left, order mark
  BOOST_TEST(printable("abcdef", 4) == "abcd...");
  BOOST_TEST(printable("ab\xc3\xa9", 3) == "ab\xc3\xa9");  // whole characters
  BOOST_TEST(printable("ab abcdef abcde c", 100, 4) == "ab abcd... abcd... c");
  const Scratch s;
  s.write("m.json", "{\"hidden\xef\xbf\xff\x85size\": 1}");
  const std::string config = s.refusal_of_set("model.config=m.json");
  BOOST_TEST(config.find("m.json:1:11: error: not valid JSON: ") == 0u, config);
  BOOST_TEST(config == printable(config));
  const std::string name(5000, 'x');
  BOOST_TEST(s.refusal_of_set("model.config=" + name).size() < 3000u);
  BOOST_TEST(s.refusal_of_set("model.config=\"a\\nb\"").find('\n') == std::string::npos);
}

BOOST_AUTO_TEST_CASE(set_options_are_cited) {
  const Scratch s;
  BOOST_TEST(s.refusal_of_set("workload") == "--set workload: error: expected a.b.c=VALUE");
  BOOST_TEST(s.refusal_of_set("a..b=1") == "--set a..b=1: error: the key has an empty part; expected a.b.c=VALUE");
  BOOST_TEST(s.refusal_of_set("a.=1") == "--set a.=1: error: the key has an empty part; expected a.b.c=VALUE");
  BOOST_TEST(s.refusal_of_set("=1") == "--set =1: error: the key has an empty part; expected a.b.c=VALUE");
  BOOST_TEST(s.refusal(with("seed: 1\n"), {"seed.x=1"}) == "--set seed.x=1: error: seed: is '1', which has no key 'x'");
  BOOST_TEST(s.refusal_of_set("seed=[") == "--set seed=[: error: not valid YAML: end of sequence flow not found");
  BOOST_TEST(s.refusal(with("events: []\n"), {"events.0=1"}) ==
             "--set events.0=1: error: events: no item '0'; the list is empty");
  BOOST_TEST(s.refusal_of_set("seed=1\nb").find('\n') == std::string::npos);
}

BOOST_AUTO_TEST_CASE(groups_without_work) {
  Scratch s;
  const std::string nccl = "machine: {groups: {node: {servers: 1}}}\nworkload: {kind: collective, op: all_reduce}\n";
  BOOST_TEST(s.refusal(nccl, {"machine.groups.nod.gpu=H200-SXM-141GB"}, "dgx_h100") ==
             "--set machine.groups.nod.gpu=H200-SXM-141GB: error: machine.groups.nod: the scenario has no such group "
             "(did you mean 'node'?); to add a group with --set, also set its servers");
  BOOST_TEST(
      s.refusal(nccl, {"machine.groups.prefill.gpu=H200-SXM-141GB"}, "dgx_h100") ==
      "--set machine.groups.prefill.gpu=H200-SXM-141GB: error: machine.groups.prefill: the scenario has no such group"
      "; accepted: node; to add a group with --set, also set its servers");
  BOOST_TEST(s.refusal(nccl, {"machine.groups.more.servers=1"}, "dgx_h100") == "accepted");
  BOOST_TEST(s.refusal(nccl, {"machine.groups.more.servers=1", "workload.ranks=8"}, "dgx_h100") ==
             "--set machine.groups.more.servers=1: error: machine.groups.more: the workload uses no GPU of this group; "
             "accepted: node");
  const std::string layer = "model: {config: " + kSource +
                            "/scenarios/models/llama-3.1-8b.json}\nmachine: {groups: {one: {}, two: {}}}\n"
                            "workload: {kind: layer, phase: prefill, tokens: 128}\n";
  BOOST_TEST(s.refusal(layer) ==
             "s.yaml:2:34: error: machine.groups.two: the workload uses no GPU of this group; accepted: one");
}
