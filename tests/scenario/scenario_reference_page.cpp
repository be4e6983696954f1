// What is generated from the parameter table is current, and agrees with what the loader does.
#define BOOST_TEST_MODULE scenario_reference_page
#include <cstdio>

#include <boost/test/unit_test.hpp>

#include "tests/scenario/scenario_support.h"

using namespace railyard;
using namespace railyard::test;

namespace {

const char* const kRegenerate = "regenerate with: build/bin/scenario_reference .";

bool has_jsonschema() { return std::system("/usr/bin/python3 -c 'import jsonschema, yaml' >/dev/null 2>&1") == 0; }

/// Whether python3-jsonschema accepts each YAML file against the shipped schema: one process for all, which starts slowly.
std::vector<bool> validate(const std::vector<std::string>& files) {
  const std::string script =
      "import json, sys, yaml, jsonschema; s = json.load(open(sys.argv[1])); "
      "jsonschema.Draft7Validator.check_schema(s); v = jsonschema.Draft7Validator(s); "
      "print(*(int(v.is_valid(yaml.safe_load(open(f)))) for f in sys.argv[2:]))";
  std::string command = "/usr/bin/python3 -c '" + script + "' '" + kSource + "/scenarios/scenario.schema.json'";
  for (const std::string& file : files) command += " '" + file + "'";
  FILE* const output = ::popen(command.c_str(), "r");
  BOOST_TEST_REQUIRE((output != nullptr));
  std::vector<bool> valid;
  for (int is_valid = 0; std::fscanf(output, "%d", &is_valid) == 1;) valid.push_back(is_valid != 0);
  ::pclose(output);
  BOOST_TEST_REQUIRE(valid.size() == files.size());
  return valid;
}

}  // namespace

BOOST_AUTO_TEST_CASE(page_is_current) {
  BOOST_TEST((parameter_reference_markdown() == text_of(kSource + "/docs/scenario-reference.md")), kRegenerate);
}

BOOST_AUTO_TEST_CASE(schema_is_current) {
  BOOST_TEST((scenario_schema() == text_of(kSource + "/scenarios/scenario.schema.json")), kRegenerate);
}

BOOST_AUTO_TEST_CASE(help_lists_every_kind_of_key) {
  const std::string help = parameter_help("");
  for (const std::string key :
       {"model.config", "workload.prefill.tp", "workload.requests.list[].arrival_s", "workload.requests.rate_scale",
        "machine.overrides.gpu", "fabric.classes.kv.vc", "workload.decode.steps"}) {
    BOOST_TEST(help.find("  " + key + "  (") != std::string::npos, key);
  }
  BOOST_TEST(help.find("fabric.classes.kv.vc  (integer, 0 to 5, default 1)") != std::string::npos);
  BOOST_TEST(
      help.find("  machine.overrides.ib_cable  (InfiniBand cable)\n      gb_per_s, latency_ns, buffer_bytes\n") !=
      std::string::npos);
}

BOOST_AUTO_TEST_CASE(help_of_a_section_has_its_keys_and_no_others) {
  const auto lists = [](const std::string& help, const std::string& key) {
    return help.find("  " + key + "  (") != std::string::npos;
  };
  BOOST_TEST(lists(parameter_help("workload.requests"), "workload.requests.rate_scale"));
  BOOST_TEST(!lists(parameter_help("workload.requests"), "workload.chunk_tokens"));
  BOOST_TEST(lists(parameter_help("layer"), "workload.phase"));
  BOOST_TEST(!lists(parameter_help("layer"), "workload.chunk_tokens"));
  BOOST_TEST(lists(parameter_help("seed"), "seed"));
  BOOST_TEST(lists(parameter_help("machine.overrides"), "machine.overrides.ib_cable.latency_ns"));
  for (const std::string& section : parameter_sections()) BOOST_TEST(!parameter_help(section).empty(), section);
  BOOST_CHECK_EXCEPTION(parameter_help("colective"), InputError, [](const InputError& e) {
    return std::string(e.what()) == "--help colective: error: no such section (did you mean 'collective'?)";
  });
}

BOOST_AUTO_TEST_CASE(shipped_scenarios_validate_by_jsonschema) {
  if (!has_jsonschema()) {
    BOOST_TEST_MESSAGE("skipped: no python3-jsonschema");
    return;
  }
  std::vector<std::string> files;
  for (const auto& file : std::filesystem::recursive_directory_iterator(kSource + "/scenarios")) {
    if (file.path().extension() != ".yaml" || file.path().parent_path().filename() == "sweeps") continue;
    files.push_back(file.path().string());
    BOOST_TEST(text_of(files.back()).find("# yaml-language-server: $schema=") == 0u, files.back());
  }
  BOOST_TEST(files.size() >= 6u);
  const std::vector<bool> valid = validate(files);
  for (std::size_t i = 0; i < files.size(); ++i) BOOST_TEST(valid[i], files[i]);
}

// The schema refuses what the loader refuses, as far as a schema can.
BOOST_AUTO_TEST_CASE(schema_and_loader_agree) {
  if (!has_jsonschema()) {
    BOOST_TEST_MESSAGE("skipped: no python3-jsonschema");
    return;
  }
  const Scratch scratch;
  std::vector<std::string> files;
  std::vector<bool> accepted;
  const auto agree = [&](const std::string& more, bool is_accepted) {
    const std::string text = small_scenario() + more;
    BOOST_TEST((scratch.refusal(text) == "accepted") == is_accepted, more);
    files.push_back(scratch.write(std::to_string(files.size()) + ".yaml", text));
    accepted.push_back(is_accepted);
  };
  agree("", true);
  agree("  decode: {steps: 4, max_batch: 0}\n", false);
  agree("  placement: {decode: [7, 6, 5, 4, 3, 2, 1, 0]}\n", true);
  agree("  placement: 3\n", false);
  agree("  memory_limit_ratio: 0\n", false);
  agree("  nic_rule: any\n", false);
  agree("machine: {overrides: {gpu: {sm: {flop_per_clock: {bf16: 2048}}}, plx_uplink: {latency_ns: 10}}}\n", true);
  agree("machine: {overrides: {gpu: {sm: {flop_per_clock: {bf17: 2048}}}}}\n", false);
  agree("fabric: {transaction_bytes: 65536}\nevents: []\ncompute: {profile: null}\n", true);
  agree("fabric: {transaction_bytes: none}\n", false);
  agree("events: [1]\n", false);
  agree("extra: 1\n", false);
  const std::vector<bool> valid = validate(files);
  for (std::size_t i = 0; i < files.size(); ++i) BOOST_TEST((valid[i] == accepted[i]), text_of(files[i]));
}
