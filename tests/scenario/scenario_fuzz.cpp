// Whatever bytes a scenario, config, trace or option holds, the loader loads it or throws an InputError of one line.
#define BOOST_TEST_MODULE scenario_fuzz
#include <boost/test/unit_test.hpp>

#include "sc_main/scenario/kinds/serving_requests.h"
#include "tests/scenario/mutants.h"

using namespace railyard;
using namespace railyard::test;

namespace {

void fuzz_scenario(const std::string& file, const std::string& platform, unsigned seed) {
  const Scratch scratch;
  std::string text = text_of(file);
  const std::string config = "models/llama-3.1-70b.json";
  text.replace(text.find(config), config.size(), kSource + "/scenarios/" + config);
  std::mt19937 random(seed);
  Tally tally;
  for (int round = 0; round < 3000; ++round) {
    const std::string path = scratch.write("f.yaml", mutated(text, random));
    tally.run([&] { load_scenario(path, {}, platform); });
  }
  BOOST_TEST(tally.loaded > 100u);  // comments leave many mutants valid
  BOOST_TEST(tally.refused > 1000u);
}

}  // namespace

BOOST_AUTO_TEST_CASE(mutated_plx_scenario) { fuzz_scenario(kPlxScenario, "plx_box", 1); }

BOOST_AUTO_TEST_CASE(mutated_dgx_scenario) { fuzz_scenario(kDgxScenario, "dgx_h100", 2); }

BOOST_AUTO_TEST_CASE(mutated_options) {
  const Scratch scratch;
  const std::string path = scratch.write("s.yaml", small_scenario());
  const std::vector<std::string> options{
      "workload.requests={list: [{arrival_s: 1.5, prompt_tokens: 10, output_tokens: 4}, {prompt_tokens: 5}]}",
      "machine.overrides={gpu: {hbm: {gb_per_s: 800}}, plx_uplink: {latency_ns: 110}}",
      "workload.placement={decode: [7, 6, 5, 4, 3, 2, 1, 0]}", "fabric.classes.kv={vc: 1, weight: 2}"};
  std::mt19937 random(3);
  Tally tally;
  for (int round = 0; round < 4000; ++round) {
    const std::string option = mutated(options[random() % options.size()], random);
    tally.run([&] { load_scenario(path, {option}, "plx_box"); });
  }
  BOOST_TEST(tally.loaded > 20u);
  BOOST_TEST(tally.refused > 1000u);
}

BOOST_AUTO_TEST_CASE(mutated_config) {
  const Scratch scratch;
  const std::string path = scratch.write("s.yaml", small_scenario());
  const std::string text = text_of(kSource + "/scenarios/models/mixtral-8x7b.json");
  std::mt19937 random(4);
  Tally tally;
  for (int round = 0; round < 3000; ++round) {
    scratch.write("m.json", mutated(text, random));
    tally.run([&] { load_scenario(path, {"model.config=m.json"}, "plx_box"); });
  }
  BOOST_TEST(tally.loaded > 20u);
  BOOST_TEST(tally.refused > 1000u);
}

BOOST_AUTO_TEST_CASE(mutated_traces) {
  const Scratch scratch;
  const std::string path = scratch.write("s.yaml", small_scenario());
  const std::vector<std::string> traces{
      "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n2023-11-16 "
      "18:15:50.9951690,396,109\n",
      "{\"timestamp\": 0, \"input_length\": 1024, \"output_length\": 500, \"hash_ids\": [0, 1, 2]}\n"
      "{\"timestamp\": 27482, \"input_length\": 700, \"output_length\": 490, \"hash_ids\": [0, 14]}\n",
      "{\"input_toks\": 35, \"output_toks\": 9, \"arrival_time_ns\": 300, \"hash_block_tokens\": 16, \"hash_ids\": [7, "
      "8]}\n{\"input_toks\": 3, \"output_toks\": 1, \"arrival_time_ns\": 5, \"input_tok_ids\": [7, 8, 9], "
      "\"output_tok_ids\": [2]}\n",
      "arrived_at,num_prefill_tokens,num_decode_tokens\n0.0,374,44\n4.314579,396,109\n"};
  std::mt19937 random(5);
  Tally prefill, serving;
  for (int round = 0; round < 3000; ++round) {
    const std::size_t format = random() % traces.size();
    scratch.write("t", mutated(traces[format], random));
    const std::string name = scenario::trace_format_names()[format];
    prefill.run([&] { load_scenario(path, {"workload.requests={format: " + name + ", file: t}"}, "plx_box"); });
    serving.run([&] {
      const auto source =
          scenario::stream_trace({static_cast<scenario::TraceFormat>(format), "t", {}, 1}, {"s.yaml", 1, 1})
              .make_source();
      while (source->next_arrival()) source->take();
    });
  }
  for (const Tally& tally : {prefill, serving}) {
    BOOST_TEST(tally.loaded > 100u);
    BOOST_TEST(tally.refused > 1000u);
  }
}
