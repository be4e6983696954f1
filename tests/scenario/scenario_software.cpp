// Datasheets of training software: the shipped ones, and errors in a user's file.
#define BOOST_TEST_MODULE scenario_software
#include <boost/test/unit_test.hpp>

#include <algorithm>

#include "sc_main/scenario/datasheets/datasheets.h"
#include "tests/scenario/scenario_support.h"

using namespace railyard;
using namespace railyard::test;
using namespace railyard::workload::training;

namespace {

Software shipped(const std::string& name) { return scenario::load_software({name, "workload.software", {}}); }

/// A line of a shipped datasheet replaced, and the error of the file that this gives.
std::string refusal(const std::string& line, const std::string& replacement) {
  return refusal_of_sheet("software/megatron_core", line, replacement, shipped);
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

BOOST_AUTO_TEST_CASE(every_shipped_datasheet_loads) {
  const std::vector<std::string> names = scenario::shipped_datasheets("software");
  for (const std::string name : {"llm_foundry", "megatron_2021", "megatron_2023", "megatron_core", "megatron_deepspeed",
                                 "torchtitan", "torchtitan_compile", "xla_fsdp"})
    BOOST_TEST(std::count(names.begin(), names.end(), name) == 1, name);
  for (const std::string& name : names) {
    const Software software = shipped(name);
    BOOST_TEST(software.name == name);
    BOOST_TEST(!software.zero_stages.empty(), name);
    // A graph has no launches that take host time.
    BOOST_TEST((software.launch == Launch::eager) == (software.host_us > 0), name);
    BOOST_TEST(software.reserved_bytes > 0.5e9, name);
  }
}

BOOST_AUTO_TEST_CASE(values_are_those_of_the_sources) {
  const Software old = shipped("megatron_2021"), core = shipped("megatron_core");
  BOOST_TEST(
      (old.attention == transformer::AttentionForm::unfused && core.attention == transformer::AttentionForm::flash));
  BOOST_TEST((!core.flash_attention && shipped("torchtitan").flash_attention == 2u));
  BOOST_TEST((old.dropout && !core.dropout));
  BOOST_TEST((old.gradients == GradientFormat::as_parameters && core.gradients == GradientFormat::fp32));
  BOOST_TEST((old.pp_overlap == PipelineOverlap::none && core.pp_overlap == PipelineOverlap::interleaved));
  BOOST_TEST(!old.has_zero_stage(1));
  BOOST_TEST(core.has_zero_stage(1));
  BOOST_TEST(!shipped("torchtitan").has_zero_stage(0));
}

BOOST_AUTO_TEST_CASE(buckets_grow_with_the_data_parallel_ranks) {
  const Software core = shipped("megatron_core");
  BOOST_TEST(core.bucket(1) == 40'000'000u);
  BOOST_TEST(core.bucket(40) == 40'000'000u);
  BOOST_TEST(core.bucket(512) == 512'000'000u);
  BOOST_TEST(shipped("megatron_2021").bucket(512) == 0u);  // one buffer
}

BOOST_AUTO_TEST_CASE(faulty_files_are_refused) {
  BOOST_TEST(refusal("nvls:", "nvls: true\n") == "accepted");
  BOOST_TEST(refusal("nccl_ctas:", "nccl_ctas: 16\n") == "accepted");
  BOOST_TEST(contains(refusal("nvls:", "nvls: false\nnvlss: true\n"), "nvlss: unknown key"));
  BOOST_TEST(contains(refusal("nvls:", "nvls: false\nnvlss: true\n"), "did you mean 'nvls'"));
  BOOST_TEST(contains(refusal("host_us:", "host_us: -1\n"), "host_us: '-1' is out of range; accepted: 0 to "));
  BOOST_TEST(contains(refusal("zero_stages:", "zero_stages: [0, 4]\n"), "zero_stages.1: '4' is out of range"));
  BOOST_TEST(contains(refusal("launch:", "launch: graphs\n"), "'graphs'"));
  BOOST_TEST(contains(refusal("launch:", "launch: graphs\n"), "did you mean 'graph'"));
  BOOST_TEST(contains(refusal("pp_overlap:", "pp_overlap: true\n"), "none, interleaved, all"));
  BOOST_TEST(contains(refusal("attention:", ""), "attention: is required"));
  BOOST_TEST(contains(refusal("flash_attention:", "flash_attention: 4\n"), "flash_attention: '4' is out of range"));
  BOOST_TEST(contains(refusal("source:", ""), "source: is required"));
  BOOST_TEST(contains(refusal("nccl_ctas:", "nccl_ctas: many\n"), "nccl_ctas: expected "));
}

BOOST_AUTO_TEST_CASE(an_unknown_name_is_refused_with_the_nearest_one) {
  try {
    shipped("megatron_cores");
    BOOST_TEST(false);
  } catch (const InputError& error) {
    const std::string text = error.what();
    BOOST_TEST(contains(text, "workload.software: no datasheet 'megatron_cores'; shipped: llm_foundry, "));
    BOOST_TEST(contains(text, "(did you mean 'megatron_core'?)"));
  }
}
