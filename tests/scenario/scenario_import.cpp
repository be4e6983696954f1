// Files of LLMServingSim become a scenario of the kind serving.
#define BOOST_TEST_MODULE scenario_import
#include <boost/test/unit_test.hpp>

#include "sc_main/scenario/import/llmservingsim.h"
#include "tests/scenario/scenario_support.h"
#include "workload/inference/service/serving_spec.h"

using namespace railyard;
using namespace railyard::test;
using scenario::LlmServingSimOptions;
using workload::inference::InstanceSpec;
using workload::inference::Reserve;
using workload::inference::ServingSpec;

namespace {

/// A cluster of one instance; tests replace parts of it.
const std::string kCluster =
    "{\n"
    "\"num_nodes\": 1, \"link_bw\": 16, \"link_latency\": [1000, 20000],\n"
    "\"nodes\": [{\"num_instances\": 1,\n"
    "\"cpu_mem\": {\"mem_size\": 64, \"mem_bw\": 50, \"mem_latency\": 0},\n"
    "\"instances\": [{\n"
    "\"model_name\": \"meta-llama/Llama-3.1-8B\", \"hardware\": \"RTX4090\", \"pd_type\": null, \"tp_size\": 1,\n"
    "\"npu_mem\": {\"mem_size\": 24, \"mem_bw\": 1008, \"mem_latency\": 0, \"mem_util\": 0.833919}\n"
    "}]}]}\n";

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  BOOST_REQUIRE_NE(at, std::string::npos);
  return text.replace(at, from.size(), to);
}

struct Files {
  Scratch scratch;
  LlmServingSimOptions options;

  Files() {
    options.cluster_config = "c.json";
    options.dataset = "t.jsonl";
    scratch.write("t.jsonl",
                  "{\"input_toks\": 40, \"output_toks\": 3, \"arrival_time_ns\": 0}\n"
                  "{\"input_toks\": 50, \"output_toks\": 4, \"arrival_time_ns\": 7}\n");
  }

  Scenario load_text(const std::string& text) {
    scratch.write("c.json", text);
    return load_llmservingsim(options, {}, "plx_box");
  }
  Scenario load(const std::string& from = "", const std::string& to = "") {
    return load_text(replaced(kCluster, from, to));
  }
  InstanceSpec instance(const std::string& from = "", const std::string& to = "") {
    return load(from, to).spec<ServingSpec>().instances.front();
  }
  std::string refusal_of(const std::string& text) {
    try {
      load_text(text);
    } catch (const InputError& error) {
      return error.what();
    }
    return "accepted";
  }
  std::string refusal(const std::string& from = "", const std::string& to = "") {
    return refusal_of(replaced(kCluster, from, to));
  }
  void set(const std::string& option, const std::string& key, const std::string& text) {
    options.settings.push_back({option, key, text});
  }
};

const std::string kTp = "\"tp_size\": 1";
const std::string kUtil = "0.833919";

std::uint32_t blocks(const Scenario& scenario) {
  return scenario.spec<ServingSpec>().instances.front().kv_blocks->count;
}

}  // namespace

BOOST_FIXTURE_TEST_CASE(blocks_are_those_of_llmservingsim, Files) {
  // vLLM's num_gpu_blocks, to which LLMServingSim's mem_util was fitted, and its default of 0.9.
  BOOST_TEST(blocks(load()) == 2588u);
  BOOST_TEST(blocks(load(kUtil, "0.9")) == 3400u);
  BOOST_TEST(blocks(load(", \"mem_util\": 0.833919", "")) == 3400u);
  // Half of the weights and of the KV cache, and the norms, on each rank: (0.9 x 24 GiB - W/2) / 1 MiB.
  const double weights = 16060522496.0;
  const Scenario tp = load(kTp, "\"tp_size\": 2");
  BOOST_TEST(blocks(tp) == static_cast<std::uint32_t>((0.833919 * 24 * (1ull << 30) - weights / 2) / (1 << 20)));
  // Each stage counts embeddings and head, 128256 x 4096 x 2 bytes each, and half of the layers.
  const double ends = 2.0 * 128256 * 4096 * 2, last_norm = 4096 * 2;
  const double stage = ends + last_norm + (weights - ends - last_norm) / 2;
  const Scenario pp = load(kTp, "\"tp_size\": 1, \"pp_size\": 2");
  BOOST_TEST(blocks(pp) == static_cast<std::uint32_t>((0.833919 * 24 * (1ull << 30) - stage) / (1 << 20)));
  // A block of 32 tokens is twice as large; FP8 halves it.
  BOOST_TEST(blocks(load(kTp, "\"tp_size\": 1, \"block_size\": 32")) == 2588u / 2);
  BOOST_TEST(blocks(load(kTp, "\"tp_size\": 1, \"kv_cache_dtype\": \"fp8\"")) / 2 == 2588u);
}

BOOST_FIXTURE_TEST_CASE(there_is_no_host_time_and_no_padding, Files) {
  const ServingSpec spec = load().spec<ServingSpec>();
  BOOST_TEST(spec.instances.front().host.name == "none");
  BOOST_TEST(spec.instances.front().cudagraph.padded(true, 9) == 9u);
  BOOST_TEST(spec.instances.front().scheduler.max_in_flight == 1u);
}

BOOST_FIXTURE_TEST_CASE(defaults_are_those_of_llmservingsim, Files) {
  const InstanceSpec spec = instance();
  BOOST_TEST(spec.scheduler.max_seqs == 128u);
  BOOST_TEST(spec.scheduler.max_batched_tokens == 2048u);
  BOOST_TEST(spec.scheduler.block_tokens == 16u);
  BOOST_TEST(spec.scheduler.prefix_caching);
  BOOST_TEST(spec.scheduler.chunked_prefill);
  BOOST_TEST((spec.scheduler.reserve == Reserve::sequence));
}

BOOST_FIXTURE_TEST_CASE(an_instance_comes_before_an_option_and_that_before_the_default, Files) {
  set("--max-num-seqs", "max_num_seqs", "32");
  set("--block-size", "block_size", "64");
  const InstanceSpec spec = instance(kTp, "\"tp_size\": 1, \"max_num_seqs\": 8");
  BOOST_TEST(spec.scheduler.max_seqs == 8u);
  BOOST_TEST(spec.scheduler.block_tokens == 64u);
  BOOST_TEST(spec.scheduler.max_batched_tokens == 2048u);
}

BOOST_FIXTURE_TEST_CASE(keys_of_an_instance_are_honoured, Files) {
  const InstanceSpec spec =
      instance(kTp,
               "\"num_npus\": 4, \"pp_size\": 2, \"long_prefill_token_threshold\": 100, "
               "\"enable_chunked_prefill\": false, \"enable_prefix_caching\": false, \"reserve_full_isl\": false");
  BOOST_TEST(spec.mapping.tp == 2u);
  BOOST_TEST(spec.mapping.pp == 2u);
  BOOST_TEST(spec.scheduler.max_in_flight == 2u);
  BOOST_TEST(spec.scheduler.long_prefill_threshold_tokens == 100u);
  BOOST_TEST(!spec.scheduler.chunked_prefill);
  BOOST_TEST(!spec.scheduler.prefix_caching);
  BOOST_TEST((spec.scheduler.reserve == Reserve::chunk));
}

BOOST_FIXTURE_TEST_CASE(zero_is_no_limit, Files) {
  const InstanceSpec spec = instance(kTp, "\"tp_size\": 1, \"max_num_seqs\": 0, \"max_num_batched_tokens\": 0");
  BOOST_TEST(spec.scheduler.max_batched_tokens == 131072u);  // max_position_embeddings
  BOOST_TEST(spec.scheduler.max_seqs == 131072u);
}

BOOST_FIXTURE_TEST_CASE(number_formats_and_names_are_translated, Files) {
  BOOST_TEST((load().model.dtype == DataType::bf16));
  set("--dtype", "dtype", "float16");
  set("--kv-cache-dtype", "kv_cache_dtype", "fp8");
  const Scenario scenario = load();
  BOOST_TEST((scenario.model.dtype == DataType::fp16));
  BOOST_TEST((scenario.model.kv_dtype == DataType::fp8));
  BOOST_TEST(scenario.model.name == "meta-llama/Llama-3.1-8B");
  BOOST_TEST(scenario.machine.groups.front().gpu.name == "RTX-4090");
  BOOST_TEST(load("RTX4090", "L40S").machine.groups.front().gpu.name == "L40S");
}

BOOST_FIXTURE_TEST_CASE(servers_are_as_many_as_the_gpus_need, Files) {
  BOOST_TEST(load().machine.groups.front().servers == 1u);
  BOOST_TEST(load(kTp, "\"tp_size\": 8, \"pp_size\": 2").machine.groups.front().servers == 2u);
}

BOOST_FIXTURE_TEST_CASE(models_are_found_in_both_layouts, Files) {
  const std::string config = text_of(kSource + "/scenarios/models/qwen3-8b.json");
  options.models = "m";
  std::filesystem::create_directories("m/meta-llama");
  scratch.write("m/meta-llama/Llama-3.1-8B.json", config);
  BOOST_TEST(load(kUtil, "0.9").model.layers == 36u);
  std::filesystem::rename("m/meta-llama/Llama-3.1-8B.json", "m/meta-llama_Llama-3.1-8B.json");
  BOOST_TEST(load(kUtil, "0.9").model.layers == 36u);
  BOOST_TEST(
      refusal("meta-llama/Llama-3.1-8B", "meta-llama/Llama-3.1-9B") ==
      "c.json:6:15: error: nodes.0.instances.0.model_name: no config of 'meta-llama/Llama-3.1-9B' in 'm'; it has "
      "meta-llama_Llama-3.1-8B (did you mean 'meta-llama_Llama-3.1-8B'?)");
}

BOOST_FIXTURE_TEST_CASE(a_gpu_gets_the_memory_that_the_file_gives_it, Files) {
  const Scenario within = load();
  BOOST_TEST(within.notes.size() == 3u);
  const Scenario beyond = load("\"mem_size\": 24", "\"mem_size\": 96");
  BOOST_TEST(blocks(beyond) > 4 * blocks(within));
  const double visible = beyond.machine.groups.front().gpu.hbm.visible_bytes();
  BOOST_TEST(visible > 0.833919 * 96 * (1ull << 30));
  BOOST_TEST(visible < 96 * (1ull << 30));
  BOOST_REQUIRE_EQUAL(beyond.notes.size(), 4u);
  BOOST_TEST(beyond.notes[3].find("npu_mem.mem_size: weights, activations and ") != std::string::npos);
}

BOOST_FIXTURE_TEST_CASE(keys_without_effect_are_named, Files) {
  const Scenario scenario =
      load(kTp,
           "\"tp_size\": 1, \"enable_block_copy\": true, \"enable_local_offloading\": false, "
           "\"placement\": {\"default\": {\"weights\": \"npu\", \"kv_evict_loc\": \"cpu\"}, "
           "\"blocks\": [{\"blocks\": \"0-3\", \"kv_loc\": \"npu\"}], \"layers\": {\"lm_head\": {}}}");
  std::string notes;
  for (const std::string& note : scenario.notes) notes += note + "\n";
  for (const char* key : {"link_bw, link_latency", "cpu_mem", "npu_mem.mem_bw, npu_mem.mem_latency",
                          "placement.kv_evict_loc", "enable_local_offloading", "enable_block_copy"})
    BOOST_TEST(notes.find("c.json: " + std::string(key) + ": not used; ") != std::string::npos, key);
}

BOOST_FIXTURE_TEST_CASE(the_scenario_loads_to_the_same_scenario, Files) {
  options.num_reqs = "1";
  const Scenario imported = load();
  BOOST_TEST(imported.spec<ServingSpec>().requests()->count() == 1u);
  const Scenario again = load_scenario(scratch.write("s.yaml", imported.resolved), {}, "plx_box");
  BOOST_TEST(again.resolved == imported.resolved);
  BOOST_TEST(blocks(again) == blocks(imported));
  options.num_reqs = "0";
  BOOST_TEST(load().spec<ServingSpec>().requests()->count() == 2u);
}

BOOST_FIXTURE_TEST_CASE(set_applies_to_the_imported_scenario, Files) {
  load();
  const Scenario scenario = load_llmservingsim(options, {"workload.engine=vllm-0.15"}, "plx_box");
  BOOST_TEST(scenario.spec<ServingSpec>().instances.front().host.name == "vllm-0.15");
}

BOOST_FIXTURE_TEST_CASE(a_profile_has_the_layout_of_llmservingsim, Files) {
  options.profile_root = "p";
  BOOST_TEST(refusal().rfind("--profile-root p: error: compute.profile: no folder "
                             "'p/RTX4090/meta-llama/Llama-3.1-8B/bf16'",
                             0) == 0);
  set("--kv-cache-dtype", "kv_cache_dtype", "fp8");
  BOOST_TEST(refusal().find("'p/RTX4090/meta-llama/Llama-3.1-8B/bf16-kvfp8'") != std::string::npos);
}

BOOST_FIXTURE_TEST_CASE(refusals_name_the_place_in_the_file, Files) {
  struct Case {
    std::string from, to;  ///< a change of the file
    std::string at;        ///< text at the place that the refusal names
    std::string message;
  };
  const std::string key = "nodes.0.instances.0.";
  const std::vector<Case> cases{
      {"\"num_nodes\": 1", "\"num_nodes\": 2", "2, ", "num_nodes: 2, but the list of nodes has 1; accepted: 1"},
      {"\"num_instances\": 1", "\"num_instances\": 3", "3,",
       "nodes.0.num_instances: 3, but the list of instances has 1; accepted: 1"},
      {"\"nodes\": [", "\"nodes\": [1", "1{", "not valid JSON: "},
      {"\"tp_size\"", "\"tp_sise\"", "\"tp_sise\"", key + "tp_sise: unknown key (did you mean 'tp_size'?)"},
      {"\"link_bw\"", "\"link_with\"", "\"link_with\"", "link_with: unknown key"},
      {"[1000, 20000]", "[1000, -1]", "-1", "link_latency.1: '-1' is out of range; accepted: "},
      {kTp, "\"tp_size\": 2, \"num_npus\": 3", "3,", key + "num_npus: 3 is not tp_size x pp_size, 2 x 1"},
      {kTp, "\"num_npus\": 3, \"pp_size\": 2", "3,", key + "num_npus: 3 is not tp_size x pp_size, 1 x 2"},
      {kTp, "\"pp_size\": 33", "33", key + "pp_size: 33 is more than the 32 layers of meta-llama/Llama-3.1-8B"},
      {kTp, "\"tp_size\": 3", "3,", "workload.instances.0.tp: 3 does not divide the 32 attention heads of "},
      {kTp, "\"ep_size\": 2", "2,", key + "ep_size: 2 is more than tp_size, 1; accepted without a dp_group: up to "},
      {kTp, "\"tp_size\": 4, \"ep_size\": 2", "2,", key + "ep_size: expert parallelism is not modelled; accepted: 1"},
      {kTp, "\"dp_group\": \"A\"", "\"A\"", key + "dp_group: data parallelism is not modelled; accepted: null"},
      {kTp, "\"block_size\": 0", "0,\n\"npu", key + "block_size: '0' is out of range; accepted: 1 to 4096"},
      {kTp, "\"dtype\": \"float32\"", "\"float32\"", key + "dtype: unknown value 'float32'; accepted: float16, "},
      {kTp, "\"max_num_seqs\": 4096", "4096", key + "max_num_seqs: 4096 requests, and batches of 2048 tokens; "},
      {"RTX4090", "RTX4091", "\"RTX4091", key + "hardware: unknown hardware 'RTX4091'; accepted: A100, "},
      {"Llama-3.1-8B", "Llama-3.1-9B", "\"meta", key + "model_name: no config of 'meta-llama/Llama-3.1-9B' in "},
      {kUtil, "1.5", "1.5", key + "npu_mem.mem_util: '1.5' is out of range; accepted: "},
      {kUtil, "0e0", "0e0", key + "npu_mem.mem_util: '0e0' is out of range; accepted: "},
      {"\"mem_size\": 24", "\"mem_size\": 16", "16, \"mem_bw\": 1008",
       key + "npu_mem.mem_size: 16 GiB x mem_util 0.833919 leaves no memory for KV cache: 1.62 GiB are missing for "
             "14.96 GiB of weights and two blocks"},
      {"\"pd_type\": null", "\"pd_type\": \"both\"", "\"both\"", key + "pd_type: unknown value 'both'; accepted: "},
      {"\"pd_type\": null", "\"pd_type\": \"decode\"", "\"decode\"",
       key + "pd_type: decode without an instance that prefills; accepted: "},
      {"\"pd_type\": null, ", "", "{\n\"model", key + "pd_type: is required; "},
      {"}]}]}", "}], \"power\": {\"x\": 1}}]}", "{\"x\"", "nodes.0.power: power is not modelled; remove this key"},
      {"}]}]}", "}]}], \"cxl_mem\": {\"x\": 1}}", "{\"x\"", "cxl_mem: CXL memory is not modelled; remove this key"},
      {"\"mem_bw\": 50", "\"pim_config\": \"x\"", "\"x\"",
       "nodes.0.cpu_mem.pim_config: processing in memory is not modelled; remove this key"},
      {kTp, "\"enable_attn_offloading\": true", "true",
       key + "enable_attn_offloading: attention outside of the GPU is not modelled; accepted: false"},
      {kTp, "\"enable_sub_batch_interleaving\": true", "true",
       key + "enable_sub_batch_interleaving: interleaving of sub-batches is not modelled; accepted: false"},
      {kTp, "\"placement\": {\"default\": {\"weights\": \"cpu\"}}", "\"cpu\"",
       key + "placement.default.weights: unknown value 'cpu'; accepted: npu"},
      {kTp, "\"placement\": {\"blocks\": [{\"blocks\": \"0\", \"kv_loc\": \"cxl:0\"}]}", "\"cxl:0\"",
       key + "placement.blocks.0.kv_loc: unknown value 'cxl:0'; accepted: npu"},
  };
  for (const Case& c : cases) {
    const std::string line = refusal(c.from, c.to), text = text_of("c.json");
    const std::string before = text.substr(0, text.find(c.at));
    const auto row = std::count(before.begin(), before.end(), '\n') + 1;
    const std::size_t column = before.size() - (before.rfind('\n') + 1) + 1;
    const bool is_message = c.message.rfind("not valid", 0) == 0;  // the parser sees the error one character later
    const std::string expected =
        "c.json:" + std::to_string(row) + ":" + std::to_string(column + is_message) + ": error: " + c.message;
    BOOST_TEST(line.rfind(expected, 0) == 0, "expected " << expected << "\n  got " << line);
    BOOST_TEST(line.find('\n') == std::string::npos);
  }
}

namespace {

const std::string kInstance = [] {
  const std::string from = kCluster.substr(kCluster.find("{\n\"model_name\""));
  return from.substr(0, from.find("]}]}"));
}();

/// The cluster with these instances instead, in one node.
std::string cluster_of(const std::vector<std::string>& instances) {
  std::string all;
  for (const std::string& instance : instances) all += (all.empty() ? "" : ",\n") + instance;
  return replaced(replaced(kCluster, kInstance, all), "\"num_instances\": 1",
                  "\"num_instances\": " + std::to_string(instances.size()));
}

std::string instance_with(const std::string& pd_type, const std::string& keys) {
  return replaced(replaced(kInstance, "null", "\"" + pd_type + "\""), kTp, keys);
}

}  // namespace

BOOST_FIXTURE_TEST_CASE(prefill_and_decode_share_the_servers_of_a_node, Files) {
  const std::string prefill = instance_with("prefill", "\"tp_size\": 2, \"max_num_seqs\": 8");
  const std::string decode = instance_with("decode", "\"tp_size\": 4");
  for (const std::vector<std::string>& order : {std::vector<std::string>{prefill, decode}, {decode, prefill}}) {
    const Scenario scenario = load_text(cluster_of(order));
    const ServingSpec& spec = scenario.spec<ServingSpec>();
    BOOST_REQUIRE_EQUAL(spec.instances.size(), 2u);
    BOOST_TEST((spec.instances[0].role == workload::inference::InstanceRole::prefill));
    BOOST_TEST((spec.instances[1].role == workload::inference::InstanceRole::decode));
    BOOST_TEST(spec.instances[0].mapping.placement == (std::vector<std::uint32_t>{0, 1}),
               boost::test_tools::per_element());
    BOOST_TEST(spec.instances[1].mapping.placement == (std::vector<std::uint32_t>{2, 3, 4, 5}),
               boost::test_tools::per_element());
    BOOST_TEST(spec.instances[0].scheduler.max_seqs == 8u);
    BOOST_TEST(spec.instances[1].scheduler.max_seqs == 128u);
    BOOST_TEST(scenario.machine.groups.size() == 1u);
    // The ranks of the prefill instance hold more weights and larger blocks.
    const std::uint32_t own = blocks(load(kTp, "\"tp_size\": 2"));
    BOOST_TEST(spec.instances[0].kv_blocks->count == own);
    BOOST_TEST(spec.instances[1].kv_blocks->count > 2 * own);
  }
}

BOOST_FIXTURE_TEST_CASE(different_gpus_are_on_different_servers, Files) {
  const Scenario scenario =
      load_text(cluster_of({instance_with("prefill", kTp), replaced(instance_with("decode", kTp), "RTX4090", "L40S")}));
  BOOST_REQUIRE_EQUAL(scenario.machine.groups.size(), 2u);
  BOOST_TEST(scenario.machine.groups[0].gpu.name == "RTX-4090");
  BOOST_TEST(scenario.machine.groups[1].gpu.name == "L40S");
  const ServingSpec& spec = scenario.spec<ServingSpec>();
  BOOST_TEST(spec.instances[0].group == 0u);
  BOOST_TEST(spec.instances[1].group == 1u);
}

BOOST_FIXTURE_TEST_CASE(any_number_of_instances_fills_the_servers_of_their_nodes, Files) {
  using workload::inference::InstanceSpec;
  using workload::inference::RouterPolicy;
  const std::string one = kInstance, two = replaced(kInstance, kTp, "\"tp_size\": 2");
  const Scenario node = load_text(cluster_of({two, one, replaced(one, "RTX4090", "L40S"), one}));
  const std::vector<InstanceSpec>& instances = node.spec<ServingSpec>().instances;
  BOOST_REQUIRE_EQUAL(instances.size(), 4u);
  BOOST_REQUIRE_EQUAL(node.machine.groups.size(), 2u);
  BOOST_TEST(node.machine.groups[0].name == "gpus_a");
  BOOST_TEST(node.machine.groups[1].gpu.name == "L40S");
  const std::vector<std::vector<std::uint32_t>> gpus{{0, 1}, {2}, {0}, {3}};
  for (std::size_t i = 0; i < instances.size(); ++i) {
    BOOST_TEST(instances[i].mapping.placement == gpus[i], boost::test_tools::per_element());
    BOOST_TEST(instances[i].group == (i == 2 ? 1u : 0u));
  }
  BOOST_TEST((node.spec<ServingSpec>().router.policy == RouterPolicy::least_load));
  options.routing_policy = "round_robin";
  const Scenario turns = load_text(cluster_of({one, one}));
  BOOST_TEST((turns.spec<ServingSpec>().router.policy == RouterPolicy::round_robin));

  const std::string prefill = instance_with("prefill", kTp), decode = instance_with("decode", kTp);
  const Scenario fleet = load_text(cluster_of({decode, prefill, decode, prefill}));
  BOOST_TEST((fleet.spec<ServingSpec>().instances[1].role == workload::inference::InstanceRole::prefill));
  BOOST_TEST((fleet.spec<ServingSpec>().instances[2].role == workload::inference::InstanceRole::decode));
}

BOOST_FIXTURE_TEST_CASE(instances_without_their_counterpart_are_refused, Files) {
  const std::string accepted = "; accepted: null, or instances with prefill and with decode";
  const std::string prefill = instance_with("prefill", kTp), decode = instance_with("decode", kTp);
  BOOST_TEST(refusal_of(cluster_of({prefill, prefill}))
                 .find("nodes.0.instances.0.pd_type: prefill without an instance "
                       "that decodes" +
                       accepted) != std::string::npos);
  BOOST_TEST(refusal_of(cluster_of({kInstance, decode}))
                 .find("nodes.0.instances.1.pd_type: decode without an instance "
                       "that prefills" +
                       accepted) != std::string::npos);
  BOOST_TEST(refusal_of(cluster_of({prefill, replaced(decode, "Llama-3.1-8B", "Llama-3.1-70B")})) ==
             "c.json:10:15: error: nodes.0.instances.1.model_name: differs from that of nodes.0.instances.0; all "
             "instances run the same model");
}

BOOST_FIXTURE_TEST_CASE(refusals_name_the_option, Files) {
  set("--max-num-seqs", "max_num_seqs", "many");
  BOOST_TEST(refusal() == "--max-num-seqs many: error: max_num_seqs: expected an integer, got 'many'");
  options.settings.clear();
  set("--max-num-batched-tokens", "max_num_batched_tokens", "64");
  BOOST_TEST(refusal().rfind("--max-num-batched-tokens 64: error: ", 0) == 0, refusal());
  options.settings.clear();
  options.num_reqs = "-1";
  BOOST_TEST(refusal().rfind("--num-reqs -1: error: workload.requests.max_count: '-1' is out of range", 0) == 0,
             refusal());
  options.num_reqs.clear();
  options.dataset = "none.jsonl";
  BOOST_TEST(refusal().rfind("--dataset none.jsonl: error: ", 0) == 0, refusal());
}
