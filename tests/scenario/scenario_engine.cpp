// Datasheets of serving engines: the shipped ones, errors in a user's file, and which kinds of workload take one.
#define BOOST_TEST_MODULE scenario_engine
#include <boost/test/unit_test.hpp>

#include "sc_main/scenario/datasheets/datasheets.h"
#include "tests/scenario/scenario_support.h"
#include "workload/bench/collective_spec.h"
#include "workload/bench/layer_spec.h"
#include "workload/inference/service/prefill_spec.h"

using namespace railyard;
using namespace railyard::test;
using collective::Engine;

namespace {

Engine engine(const std::string& name) { return scenario::load_engine({name, "workload.library", {}}); }

/// The refusal of SGLang's datasheet in which a line is replaced.
std::string refusal(const std::string& line, const std::string& replacement) {
  return refusal_of_sheet("engines/sglang", line, replacement, engine);
}

std::string model() { return "model: {config: " + kSource + "/scenarios/models/llama-3.1-8b.json}\n"; }

/// vLLM's datasheet in which eight ranks reduce vectors of up to 32 MiB.
std::string with_larger_vectors() {
  std::string text = text_of(kSource + "/platforms/datasheets/engines/vllm.yaml");
  const std::string limit = "{ranks: [6, 8], one_shot: {below_kib: 256}, two_shot: {up_to_kib: 8192}}";
  const std::size_t at = text.find(limit);
  BOOST_TEST_REQUIRE(at != std::string::npos);
  return text.replace(at, limit.size(), "{ranks: [8], two_shot: {up_to_kib: 32768}}");
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_shipped_engine_loads) {
  const std::vector<std::string> names = scenario::shipped_datasheets("engines");
  const std::vector<std::string> expected{"nccl", "sglang", "trtllm", "vllm"};
  BOOST_TEST(names == expected, boost::test_tools::per_element());
  for (const std::string& name : names) {
    const Engine one = engine(name);
    BOOST_TEST(one.name == name);
    BOOST_TEST(one.all_reduce.empty() == (name == "nccl"), name);
    BOOST_TEST((one.attention == gpu::AttentionLibrary::trtllm) == (name == "trtllm"), name);
  }
}

BOOST_AUTO_TEST_CASE(a_limit_is_with_or_without_its_size) {
  BOOST_TEST((collective::SizeLimit{512, 0}.most()) == 512u * 1024);
  BOOST_TEST((collective::SizeLimit{0, 512}.most()) == 512u * 1024 - 1);
  BOOST_TEST(collective::SizeLimit().most() == 0u);
}

BOOST_AUTO_TEST_CASE(faulty_files_are_refused) {
  BOOST_TEST(refusal("  - {us: 41}", "  - {us: 42}\n") == "accepted");
  BOOST_TEST(refusal("  - {us: 41}", "eager_cal: []\n") ==
             "mine.yaml:18:1: error: eager_cal: unknown key (did you mean 'eager_call'?)");
  BOOST_TEST(
      refusal("  - {cpus: [grace],", "  - {cpus: [graze], us: 72}\n") ==
      "mine.yaml:17:13: error: eager_call.1.cpus.0: unknown value 'graze'; accepted: xeon_cascade_lake, xeon_ice_lake, "
      "xeon_sapphire_rapids, xeon_emerald_rapids, epyc_rome, epyc_milan, epyc_genoa, epyc_turin, grace (did you mean "
      "'grace'?)");
  BOOST_TEST(refusal("  - {us: 41}", "  - {cpus: [grace]}\n") ==
             "mine.yaml:18:5: error: eager_call.2.us: is required; time of a call");
  BOOST_TEST(refusal("  - architectures: [blackwell]", "  - architectures: [blackwel]\n") ==
             "mine.yaml:20:21: error: all_reduce.0.architectures.0: unknown value 'blackwel'; accepted: volta, ampere, "
             "ada, hopper, blackwell, cdna3 (did you mean 'blackwell'?)");
  BOOST_TEST(
      refusal("    interconnect: nvlink", "    interconnect: nvlnk\n") ==
      "mine.yaml:21:19: error: all_reduce.0.interconnect: unknown value 'nvlnk'; accepted: nvlink, pcie (did you "
      "mean 'nvlink'?)");
  BOOST_TEST(refusal("    kernel: {kind: push}", "    kernel: {kind: push, blocks: 36}\n") ==
             "mine.yaml:22:26: error: all_reduce.0.kernel.blocks: unknown key; accepted: kind");
  BOOST_TEST(refusal("    kernel: {kind: push}", "    kernel: {kind: pull, blocks: 36, threads: 512}\n") ==
             "mine.yaml:22:13: error: all_reduce.0.kernel.read_bytes: is required; bytes that a thread reads from each "
             "peer at "
             "once");
  BOOST_TEST(refusal("    kernel: {kind: push}", "") ==
             "mine.yaml:20:5: error: all_reduce.0.kernel: is required; how the kernel moves data");
  BOOST_TEST(refusal("      - {ranks: [2],", "      - {ranks: [1], one_shot: {up_to_kib: 1}}\n") ==
             "mine.yaml:24:18: error: all_reduce.0.limits.0.ranks.0: '1' is out of range; accepted: 2 to 1024");
  BOOST_TEST(
      refusal("      - {ranks: [2],", "      - {ranks: [2], one_shot: {up_to_kib: 1, below_kib: 2}}\n") ==
      "mine.yaml:24:47: error: all_reduce.0.limits.0.one_shot.below_kib: is not accepted with the other keys here; "
      "accepted with them: up_to_kib");
  BOOST_TEST(refusal("  - {architectures: [hopper]", "  - {architectures: [hopper, blackwell], library: deepgemm}\n") ==
             ":1:1: error: workload.library: mine.yaml: block_scaled_products: deepgemm is known for hopper, "
             "not for blackwell; accepted there: cublas");
  BOOST_TEST(refusal("source:", "") == "mine.yaml:3:1: error: source: is required; where the values come from");
}

BOOST_AUTO_TEST_CASE(an_unknown_name_is_refused_with_the_nearest_one) {
  const Scratch scratch;
  BOOST_TEST(scratch.refusal("workload: {kind: collective, op: all_reduce, library: vlm}\n") ==
             "s.yaml:1:55: error: workload.library: no datasheet 'vlm'; shipped: nccl, sglang, trtllm, vllm; or a path "
             "to a .yaml file (did you mean 'vllm'?)");
}

BOOST_AUTO_TEST_CASE(kinds_of_workload_take_shipped_engines_and_files) {
  const Scratch scratch;
  scratch.write("mine.yaml", with_larger_vectors());
  const auto two_shot = [](const Engine& one) { return one.all_reduce.front().limits.back().two_shot.most(); };

  using workload::collective_bench::CollectiveBenchSpec;
  const std::string bench = "workload: {kind: collective, op: all_reduce}\n";
  BOOST_TEST(scratch.load(bench).spec<CollectiveBenchSpec>().engine.name == "nccl");
  BOOST_TEST(two_shot(scratch.load(bench, {"workload.library=./mine.yaml"}).spec<CollectiveBenchSpec>().engine) ==
             32u << 20);

  using workload::layer::LayerSpec;
  const std::string layer = model() + "workload: {kind: layer, phase: decode}\n";
  BOOST_TEST(scratch.load(layer).spec<LayerSpec>().engine.name == "vllm");
  BOOST_TEST(scratch.load(layer, {"workload.library=./mine.yaml"}).spec<LayerSpec>().engine.name == "mine");

  using workload::inference::ServingSpec;
  const std::string serving = model() + "workload: {kind: serving, requests: {prompt_tokens: 512, output_tokens: 8}}\n";
  const auto of_instance = [&](const std::vector<std::string>& sets) {
    return scratch.load(serving, sets).spec<ServingSpec>().instances.front().engine.name;
  };
  BOOST_TEST(of_instance({}) == "vllm");
  BOOST_TEST(of_instance({"workload.scheduler.preset=trtllm"}) == "trtllm");
  BOOST_TEST(of_instance({"workload.scheduler.preset=trtllm", "workload.scheduler.library=./mine.yaml"}) == "mine");

  const auto of_groups = [&](const std::vector<std::string>& sets) {
    return scratch.load(small_scenario(), sets).spec<workload::inference::PrefillSpec>().engine.name;
  };
  BOOST_TEST(of_groups({}) == "vllm");
  BOOST_TEST(of_groups({"workload.library=trtllm"}) == "trtllm");
  BOOST_TEST(of_groups({"workload.library=./mine.yaml"}) == "mine");
}

BOOST_AUTO_TEST_CASE(hosts_launch_eager_layers_slower_and_on_older_cpus_slower_still) {
  for (const std::string& name : scenario::shipped_datasheets("hosts")) {
    if (name == "none") continue;
    const auto on = [&](Cpu cpu) { return scenario::load_host(name, cpu, true); };
    BOOST_TEST(on(Cpu::xeon_sapphire_rapids).eager_layer_us > on(Cpu::xeon_sapphire_rapids).layer_us, name);
    BOOST_TEST(on(Cpu::epyc_rome).eager_layer_us > on(Cpu::xeon_sapphire_rapids).eager_layer_us, name);
  }
  const auto sequence_us = [](bool streams) {
    return scenario::load_host("trtllm", Cpu::epyc_rome, streams).sequence_us;
  };
  BOOST_TEST(sequence_us(true) > sequence_us(false));
}

BOOST_AUTO_TEST_CASE(host_and_graphs_follow_the_preset_of_the_scheduler) {
  using workload::GraphMode;
  using workload::inference::ServingSpec;
  Scratch scratch;
  const std::string serving = model() + "workload: {kind: serving, requests: {prompt_tokens: 512, output_tokens: 8}}\n";
  const auto with = [&](const std::vector<std::string>& sets) {
    return scratch.load(serving, sets).spec<ServingSpec>();
  };
  struct Expected {
    std::string scheduler, host;
    GraphMode graphs;
    bool async;
  };
  for (const Expected& e : {Expected{"vllm", "vllm_v1", GraphMode::full, true},
                            {"vllm_v0", "vllm_v0", GraphMode::decode, false},
                            {"sglang", "sglang", GraphMode::decode, true},
                            {"trtllm", "trtllm", GraphMode::full, false}}) {
    const ServingSpec spec = with({"workload.scheduler.preset=" + e.scheduler});
    BOOST_TEST(spec.host.name == e.host);
    BOOST_TEST((spec.cudagraph.mode == e.graphs), e.scheduler);
    BOOST_TEST(spec.host.async == e.async);
    const std::string own = "workload.instances=[{name: a, scheduler: {preset: " + e.scheduler + "}}]";
    BOOST_TEST(with({own}).host.name == e.host);
  }
  BOOST_TEST((with({"workload.host.preset=vllm_2023_eager"}).cudagraph.mode == GraphMode::none));
  BOOST_TEST((with({"workload.cudagraph.mode=none"}).cudagraph.mode == GraphMode::none));
}

BOOST_AUTO_TEST_CASE(an_eager_engine_keeps_the_memory_of_its_graphs) {
  using workload::inference::ServingSpec;
  Scratch scratch;
  const std::string serving = model() + "workload: {kind: serving, requests: {prompt_tokens: 512, output_tokens: 8}}\n";
  const auto reserved = [&](const std::vector<std::string>& sets) {
    return scratch.load(serving, sets).spec<ServingSpec>().memory.engine_reserved_bytes;
  };
  const Bytes others = reserved({});
  const std::string graphs = "workload.cudagraph.reserved_bytes=600000000";
  BOOST_TEST(reserved({graphs}) == others + 600000000u);
  BOOST_TEST(reserved({graphs, "workload.cudagraph.mode=none"}) == others);
}
