// Datasheets of serving engines: the shipped ones, errors in a user's file, and which kinds of workload take one.
#define BOOST_TEST_MODULE scenario_engine
#include <boost/test/unit_test.hpp>

#include <algorithm>

#include "sc_main/scenario/datasheets/datasheets.h"
#include "tests/scenario/scenario_support.h"
#include "workload/bench/collective_spec.h"
#include "workload/bench/layer_spec.h"
#include "workload/inference/service/serving_spec.h"

using namespace railyard;
using namespace railyard::test;
using collective::Engine;

namespace {

Engine engine(const std::string& name) { return scenario::load_engine({name, "workload.library", {}}); }

/// The refusal of SGLang's datasheet in which a line is replaced.
std::string refusal(const std::string& line, const std::string& replacement) {
  return refusal_of_sheet("engines/sglang-0.5", line, replacement, engine);
}

std::string model() { return "model: {config: " + kSource + "/scenarios/models/llama-3.1-8b.json}\n"; }

/// vLLM's datasheet in which eight ranks reduce vectors of up to 32 MiB.
std::string with_larger_vectors() {
  std::string text = text_of(kSource + "/platforms/datasheets/engines/vllm-0.19.yaml");
  const std::string limit = "{ranks: [6, 8], one_shot: {below_kib: 256}, two_shot: {up_to_kib: 8192}}";
  const std::size_t at = text.find(limit);
  BOOST_TEST_REQUIRE(at != std::string::npos);
  return text.replace(at, limit.size(), "{ranks: [8], two_shot: {up_to_kib: 32768}}");
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_shipped_engine_loads) {
  const std::vector<std::string> names = scenario::shipped_datasheets("engines");
  const std::vector<std::string> expected{"nccl",      "none",      "sglang-0.5", "trtllm-1.0",     "vllm-0.12",
                                          "vllm-0.15", "vllm-0.19", "vllm-0.6",   "vllm-2023-eager"};
  BOOST_TEST(names == expected, boost::test_tools::per_element());
  for (const std::string& name : names) {
    const scenario::EngineSheet one = scenario::load_engine({name, "workload.engine", {}});
    BOOST_TEST(one.name == name);
    BOOST_TEST(one.all_reduce.empty() == (name == "nccl"), name);
    BOOST_TEST((one.attention == gpu::AttentionLibrary::trtllm) == (name == "trtllm-1.0"), name);
    BOOST_TEST(one.scheduler.has_value() == (name != "nccl"), name);
    BOOST_TEST(one.host.has_value() == (name != "nccl"), name);
  }
}

BOOST_AUTO_TEST_CASE(a_limit_is_with_or_without_its_size) {
  BOOST_TEST((collective::SizeLimit{512, 0}.most()) == 512u * 1024);
  BOOST_TEST((collective::SizeLimit{0, 512}.most()) == 512u * 1024 - 1);
  BOOST_TEST(collective::SizeLimit().most() == 0u);
}

BOOST_AUTO_TEST_CASE(faulty_files_are_refused) {
  BOOST_TEST(refusal("    - {us: 41}", "    - {us: 42}\n") == "accepted");
  const auto says = [](const std::string& text, const std::string& part) {
    BOOST_TEST(text.find(part) != std::string::npos, text);
  };
  const std::string call = "    - {us: 41}", sheet = text_of(kSource + "/platforms/datasheets/engines/sglang-0.5.yaml");
  const auto line = 1 + std::count(sheet.begin(), sheet.begin() + static_cast<std::ptrdiff_t>(sheet.find(call)), '\n');
  says(refusal(call, "  eager_cal: []\n"),
       "mine.yaml:" + std::to_string(line) +
           ":3: error: all_reduce.eager_cal: unknown key (did you mean 'eager_call'?)");
  says(refusal("    - {cpus: [grace],", "    - {cpus: [graze], us: 72}\n"),
       "all_reduce.eager_call.1.cpus.0: unknown value 'graze'; accepted: xeon_cascade_lake, xeon_ice_lake, "
       "xeon_sapphire_rapids, xeon_emerald_rapids, epyc_rome, epyc_milan, epyc_genoa, epyc_turin, grace (did you mean "
       "'grace'?)");
  says(refusal("    - {us: 41}", "    - {cpus: [grace]}\n"), "all_reduce.eager_call.2.us: is required; time of a call");
  says(refusal("    - architectures: [blackwell]", "    - architectures: [blackwel]\n"),
       "all_reduce.kernels.0.architectures.0: unknown value 'blackwel'; accepted: volta, ampere, ada, hopper, "
       "blackwell, cdna3 (did you mean 'blackwell'?)");
  says(refusal("      interconnect: nvlink", "      interconnect: nvlnk\n"),
       "all_reduce.kernels.0.interconnect: unknown value 'nvlnk'; accepted: nvlink, pcie (did you mean 'nvlink'?)");
  says(refusal("      kernel: {kind: push}", "      kernel: {kind: push, blocks: 36}\n"),
       "all_reduce.kernels.0.kernel.blocks: unknown key; accepted: kind");
  says(refusal("      kernel: {kind: push}", "      kernel: {kind: pull, blocks: 36, threads: 512}\n"),
       "all_reduce.kernels.0.kernel.read_bytes: is required; bytes that a thread reads from each peer at once");
  says(refusal("      kernel: {kind: push}", ""),
       "all_reduce.kernels.0.kernel: is required; how the kernel moves data");
  says(refusal("        - {ranks: [2],", "        - {ranks: [1], one_shot: {up_to_kib: 1}}\n"),
       "all_reduce.kernels.0.limits.0.ranks.0: '1' is out of range; accepted: 2 to 1024");
  says(
      refusal("        - {ranks: [2],", "        - {ranks: [2], one_shot: {up_to_kib: 1, below_kib: 2}}\n"),
      "all_reduce.kernels.0.limits.0.one_shot.below_kib: is not accepted with the other keys here; accepted with them: "
      "up_to_kib");
  says(refusal("    - {architectures: [hopper]", "    - {architectures: [hopper, blackwell], library: deepgemm}\n"),
       "block_scaled_products: deepgemm is known for hopper, not for blackwell; accepted there: cublas");
  says(refusal("source:", ""), "source: is required; where the values come from");
  says(refusal("  mix: prefill_first", ""), "scheduler.mix: is required");
  says(refusal("  step_us: 126", "  step_us: 126\n  step_us: 127\n"), "duplicate key 'step_us'; first given at line");
  says(refusal("source:", "source: mine\nbase: vllm-0.91\n"), "base: no datasheet 'vllm-0.91'; shipped: nccl, none,");
}

/// Entries of a sheet's lists are tried in order: what an earlier one takes never gets to a later one.
BOOST_AUTO_TEST_CASE(a_condition_that_never_holds_is_refused) {
  const auto never = [](const std::string& key, int late, int early) {
    return key + "." + std::to_string(late) + ": never applies, because entry " + std::to_string(early) +
           " applies wherever it would; entries are tried in order";
  };
  const auto says = [](const std::string& text, const std::string& part) {
    BOOST_TEST(text.find(part) != std::string::npos, text);
  };
  const std::string large = "    - {memory_from_gib: 160,", limits = ", max_batched_tokens: 16384, max_seqs: 2048}\n";
  says(refusal(large, "    - {memory_from_gib: 50" + limits), never("scheduler.limits", 1, 0));
  says(refusal(large, "    - {memory_from_gib: 50, except: [H100-SXM5]" + limits), "accepted");
  says(refusal(large, "    - {max_seqs: 2048, max_batched_tokens: 16384}\n"), never("scheduler.limits", 1, 0));
  says(
      refusal("    - {max_batched_tokens: 2048", "    - {memory_from_gib: 1, max_batched_tokens: 2048, max_seqs: 1}\n"),
      "scheduler.limits: no limits apply to some GPUs");
  says(refusal("    - {cpus: [grace],", "    - {us: 72}\n"), never("all_reduce.eager_call", 2, 1));
  says(refusal("    - architectures: [hopper]", "    - architectures: [blackwell]\n"),
       never("all_reduce.kernels", 1, 0));
  says(refusal("    - architectures: [blackwell]", "    - architectures: [hopper, blackwell]\n"),
       never("all_reduce.kernels", 1, 0));
}

/// A sheet has what differs from its base, section by section.
BOOST_AUTO_TEST_CASE(a_sheet_may_have_only_what_differs_from_its_base) {
  Scratch scratch;
  scratch.write("mine.yaml", "source: mine\nbase: vllm-0.12\nhost: {step_us: 7}\n");
  const scenario::EngineSheet mine = scenario::load_engine({scratch.path("mine.yaml"), "workload.engine", {}});
  const scenario::EngineSheet base = scenario::load_engine({"vllm-0.12", "workload.engine", {}});
  BOOST_TEST(mine.name == "mine");
  BOOST_TEST(mine.host->step_us == 7);
  BOOST_TEST(mine.host->sequence_us == base.host->sequence_us);
  BOOST_TEST(!mine.host->async);
  BOOST_TEST(mine.scheduler->limits.size() == base.scheduler->limits.size());
  scratch.write("mine.yaml", "source: mine\nbase: ./mine.yaml\n");
  BOOST_CHECK_THROW(scenario::load_engine({scratch.path("mine.yaml"), "workload.engine", {}}), InputError);
}

BOOST_AUTO_TEST_CASE(an_unknown_name_is_refused_with_the_nearest_one) {
  const Scratch scratch;
  BOOST_TEST(
      scratch.refusal("workload: {kind: collective, op: all_reduce, library: vlm-0.19}\n") ==
      "s.yaml:1:55: error: workload.library: no datasheet 'vlm-0.19'; shipped: nccl, none, sglang-0.5, trtllm-1.0, "
      "vllm-0.12, vllm-0.15, vllm-0.19, vllm-0.6, vllm-2023-eager; or a path to a .yaml file (did you mean "
      "'vllm-0.19'?)");
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
  BOOST_TEST(scratch.load(layer).spec<LayerSpec>().engine.name == "vllm-0.19");
  BOOST_TEST(scratch.load(layer, {"workload.library=./mine.yaml"}).spec<LayerSpec>().engine.name == "mine");

  using workload::inference::ServingSpec;
  const std::string serving = model() + "workload: {kind: serving, requests: {prompt_tokens: 512, output_tokens: 8}}\n";
  const auto of_instance = [&](const std::vector<std::string>& sets) {
    return scratch.load(serving, sets).spec<ServingSpec>().instances.front().engine.name;
  };
  BOOST_TEST(of_instance({}) == "vllm-0.19");
  BOOST_TEST(of_instance({"workload.engine=trtllm-1.0"}) == "trtllm-1.0");
  BOOST_TEST(of_instance({"workload.engine=./mine.yaml"}) == "mine");

  const auto of_groups = [&](const std::vector<std::string>& sets) {
    return scratch.load(small_scenario(), sets).spec<workload::inference::ServingSpec>().instances[0].engine.name;
  };
  BOOST_TEST(of_groups({"workload.engine=trtllm-1.0"}) == "trtllm-1.0");
  BOOST_TEST(of_groups({"workload.engine=./mine.yaml"}) == "mine");
  BOOST_TEST(scratch.refusal(serving + "  # library\n", {"workload.engine=nccl"}) ==
             "--set workload.engine=nccl: error: workload.engine: nccl has no scheduler, so it serves no requests; "
             "accepted: none, sglang-0.5, trtllm-1.0, vllm-0.12, vllm-0.15, vllm-0.19, vllm-0.6, vllm-2023-eager, or a "
             "file with both sections");
}

BOOST_AUTO_TEST_CASE(hosts_launch_eager_layers_slower_and_on_older_cpus_slower_still) {
  const auto host = [](const std::string& name) { return *scenario::load_engine({name, "workload.engine", {}}).host; };
  for (const std::string& name : scenario::shipped_datasheets("engines")) {
    if (name == "none" || name == "nccl") continue;
    const auto on = [&](Cpu cpu) { return host(name).on(cpu, true); };
    BOOST_TEST(on(Cpu::xeon_sapphire_rapids).eager_layer_us > on(Cpu::xeon_sapphire_rapids).layer_us, name);
    BOOST_TEST(on(Cpu::epyc_rome).eager_layer_us > on(Cpu::xeon_sapphire_rapids).eager_layer_us, name);
  }
  const auto sequence_us = [&](bool streams) { return host("trtllm-1.0").on(Cpu::epyc_rome, streams).sequence_us; };
  BOOST_TEST(sequence_us(true) > sequence_us(false));
}

/// The engine's word decides scheduler, host and graphs; keys of the scenario are read over its sheet.
BOOST_AUTO_TEST_CASE(an_engine_is_one_word) {
  using workload::GraphMode;
  using workload::inference::BatchMix;
  using workload::inference::Reserve;
  using workload::inference::ServingSpec;
  Scratch scratch;
  const std::string serving = model() + "workload: {kind: serving, requests: {prompt_tokens: 512, output_tokens: 8}}\n";
  const auto with = [&](const std::vector<std::string>& sets) {
    return scratch.load(serving, sets).spec<ServingSpec>();
  };
  struct Expected {
    std::string name;
    GraphMode graphs;
    bool async;
    BatchMix mix;
    Reserve reserve;
  };
  for (const Expected& e : {Expected{"vllm-0.19", GraphMode::full, true, BatchMix::mixed, Reserve::sequence},
                            {"vllm-0.15", GraphMode::full, true, BatchMix::mixed, Reserve::chunk},
                            {"vllm-0.12", GraphMode::full, false, BatchMix::mixed, Reserve::chunk},
                            {"vllm-0.6", GraphMode::decode, false, BatchMix::prefill_first, Reserve::sequence},
                            {"vllm-2023-eager", GraphMode::none, false, BatchMix::prefill_first, Reserve::sequence},
                            {"sglang-0.5", GraphMode::decode, true, BatchMix::prefill_first, Reserve::expected_output},
                            {"trtllm-1.0", GraphMode::full, false, BatchMix::mixed, Reserve::full_output},
                            {"none", GraphMode::full, false, BatchMix::mixed, Reserve::sequence}}) {
    const ServingSpec spec = with({"workload.engine=" + e.name});
    const workload::inference::SchedulerSpec& scheduler = spec.instances.front().scheduler;
    BOOST_TEST(spec.instances.front().host.name == e.name);
    BOOST_TEST((spec.instances.front().cudagraph.mode == e.graphs), e.name);
    BOOST_TEST(spec.instances.front().host.async == e.async);
    BOOST_TEST((scheduler.mix == e.mix), e.name);
    BOOST_TEST((scheduler.reserve == e.reserve), e.name);
    BOOST_TEST(spec.instances.front().host.is_modelled() == (e.name != "none"));
    const ServingSpec alone = with({"workload.engine=" + e.name, "workload.host=none"});
    BOOST_TEST(!alone.instances.front().host.is_modelled());
    BOOST_TEST(alone.instances.front().host.request_us == 0);
  }
  const ServingSpec own =
      with({"workload.engine=trtllm-1.0", "workload.host.step_us=7", "workload.scheduler.max_seqs=9",
            "workload.instances=[{name: a, scheduler: {max_seqs: 8}}]", "workload.cudagraph.mode=none"});
  BOOST_TEST(own.instances.front().host.step_us == 7);
  BOOST_TEST(own.instances.front().host.request_us ==
             with({"workload.engine=trtllm-1.0"}).instances.front().host.request_us);
  BOOST_TEST(own.instances.front().scheduler.max_seqs == 8u);
  BOOST_TEST((own.instances.front().scheduler.reserve == Reserve::full_output));
  BOOST_TEST((own.instances.front().cudagraph.mode == GraphMode::none));
}

/// An instance can have an engine of its own; those that hand KV over have the rules of one.
BOOST_AUTO_TEST_CASE(instances_have_engines_of_their_own) {
  using workload::inference::InstanceSpec;
  using workload::inference::Reserve;
  using workload::inference::ServingSpec;
  Scratch scratch;
  const std::string serving = model() + "workload: {kind: serving, requests: {prompt_tokens: 512, output_tokens: 8}}\n";
  const auto instances = [&](const std::string& a, const std::string& b) {
    return "workload.instances=[{name: a" + a + "}, {name: b" + b + "}]";
  };
  const std::vector<InstanceSpec> two =
      scratch.load(serving, {instances("", ", engine: sglang-0.5"), "workload.host.step_us=7"})
          .spec<ServingSpec>()
          .instances;
  BOOST_TEST(two[0].engine.name == "vllm-0.19");
  BOOST_TEST(two[1].engine.name == "sglang-0.5");
  BOOST_TEST(two[1].host.name == "sglang-0.5");
  BOOST_TEST((two[1].scheduler.reserve == Reserve::expected_output));
  BOOST_TEST((two[1].cudagraph.mode == workload::GraphMode::decode));
  BOOST_TEST(two[0].host.step_us == 7);
  BOOST_TEST(two[1].host.step_us == 7);
  const std::string prefill = ", role: prefill", decode = ", role: decode, engine: ";
  BOOST_TEST(scratch.load(serving, {instances(prefill, decode + "vllm-0.15")}).spec<ServingSpec>().instances.size() ==
             2u);
  BOOST_TEST(
      scratch.refusal(serving, {instances(prefill, decode + "sglang-0.5")})
          .find("workload.instances.1.engine: sglang-0.5 takes KV otherwise than vllm-0.19 of instance a gives it; "
                "accepted: engines with the same kv_transfer") != std::string::npos);
  BOOST_TEST(scratch.refusal(serving, {instances("", ", engine: sglang-0.6")}).find("workload.instances.1.engine: ") !=
             std::string::npos);
}

/// Words that workload.engine has replaced mean what they meant, and are named with the new one.
BOOST_AUTO_TEST_CASE(old_words_are_read_and_named) {
  using workload::inference::ServingSpec;
  Scratch scratch;
  const std::string serving = model() + "workload: {kind: serving, requests: {prompt_tokens: 512, output_tokens: 8}}\n";
  struct Old {
    std::vector<std::string> sets;
    std::string engine, host;
  };
  for (const Old& old :
       std::vector<Old>{{{"workload.scheduler.preset=trtllm"}, "trtllm-1.0", "trtllm-1.0"},
                        {{"workload.scheduler.preset=vllm_v0"}, "vllm-0.6", "vllm-0.6"},
                        {{"workload.instances=[{name: a, scheduler: {preset: sglang}}]"}, "sglang-0.5", "sglang-0.5"},
                        {{"workload.host.preset=vllm_v1_sync"}, "vllm-0.12", "vllm-0.12"},
                        {{"workload.scheduler.preset=vllm", "workload.host.preset=vllm_2023_eager"},
                         "vllm-2023-eager",
                         "vllm-2023-eager"},
                        {{"workload.host.preset=none"}, "none", "none"},
                        {{"workload.scheduler={preset: trtllm}", "workload.host={preset: none}"}, "trtllm-1.0", "none"},
                        {{"workload.engine=vllm-0.15", "workload.host.preset=vllm_v1"}, "vllm-0.15", "vllm-0.15"}}) {
    const Scenario loaded = scratch.load(serving, old.sets);
    const ServingSpec& spec = loaded.spec<ServingSpec>();
    BOOST_TEST(spec.instances.front().engine.name == old.engine);
    BOOST_TEST(spec.instances.front().host.name == old.host);
    BOOST_TEST_REQUIRE(loaded.notes.size() == 1u);
    BOOST_TEST(loaded.notes.front().find("old; write workload.engine: " + old.engine) != std::string::npos,
               loaded.notes.front());
    BOOST_TEST(loaded.resolved.find("preset:") == std::string::npos);
  }
  const ServingSpec part = scratch
                               .load(serving, {"workload.scheduler.preset=sglang",
                                               "workload.host={preset: none, async: true, step_us: 300}"})
                               .spec<ServingSpec>();
  BOOST_TEST(part.instances.front().host.step_us == 300);
  BOOST_TEST(part.instances.front().host.async);
  BOOST_TEST(part.instances.front().host.token_us == 0);
  BOOST_TEST(scratch.load(serving, {"workload.engine=trtllm-1.0"}).notes.empty());
  BOOST_TEST(
      scratch.refusal(serving, {"workload.engine=sglang-0.5", "workload.scheduler.preset=trtllm"}) ==
      "--set workload.scheduler.preset=trtllm: error: workload.scheduler.preset: 'trtllm', of engine trtllm-1.0, "
      "contradicts workload.engine: 'sglang-0.5'; write workload.engine alone");
  BOOST_TEST(scratch.refusal(serving, {"workload.scheduler.preset=trtllm", "workload.host.preset=vllm_v1"}) ==
             "--set workload.host.preset=vllm_v1: error: workload.host.preset: 'vllm_v1', of engine vllm-0.19, "
             "contradicts workload.scheduler.preset: 'trtllm'; write workload.engine alone");
  BOOST_TEST(scratch.refusal(serving, {"workload.host.preset=vllm_v2"}) ==
             "--set workload.host.preset=vllm_v2: error: workload.host.preset: unknown value 'vllm_v2' (did you mean "
             "'vllm_v1'?); this key is now workload.engine, the name of an engine with its version");
  const Scenario bench = scratch.load("workload: {kind: collective, op: all_reduce, library: vllm}\n");
  BOOST_TEST(bench.spec<workload::collective_bench::CollectiveBenchSpec>().engine.name == "vllm-0.19");
  BOOST_TEST(bench.notes.size() == 1u);
}

BOOST_AUTO_TEST_CASE(an_eager_engine_keeps_the_memory_of_its_graphs) {
  using workload::inference::ServingSpec;
  Scratch scratch;
  const std::string serving = model() + "workload: {kind: serving, requests: {prompt_tokens: 512, output_tokens: 8}}\n";
  const auto reserved = [&](const std::vector<std::string>& sets) {
    return scratch.load(serving, sets).spec<ServingSpec>().instances.front().memory.engine_reserved_bytes;
  };
  const Bytes others = reserved({});
  const std::string graphs = "workload.cudagraph.reserved_bytes=600000000";
  BOOST_TEST(reserved({graphs}) == others + 600000000u);
  BOOST_TEST(reserved({graphs, "workload.cudagraph.mode=none"}) == others);
}
