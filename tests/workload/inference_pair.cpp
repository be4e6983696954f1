// One instance that prefills and one that decodes: the KV of each prompt crosses the fabric once, and all blocks are free
// at the end.
#include "tests/support/systemc_main.h"
#include "tests/support/tiny_serving.h"

using namespace railyard;
using namespace railyard::test;
using namespace railyard::workload::inference;

namespace {

const std::string kTwoShapes =
    "workload.instances=[{name: p, role: prefill, tp: 2}, {name: d, role: decode, pp: 2, gpus: [4, 5]}]";
const std::string kPair = "workload.instances=[{name: d, role: decode, gpus: [4]}, {name: p, role: prefill}]";
const std::string kThree =
    "workload.requests={list: [{prompt_tokens: 1000, output_tokens: 20}, {prompt_tokens: 77, output_tokens: 1}, "
    "{arrival_s: 0.01, prompt_tokens: 1024, output_tokens: 3}]}";

/// Runs a pair, and checks what holds for every pair.
void run_pair(ServingRunUnderTest& run) {
  run.run();
  for (std::size_t i : {0u, 1u}) {
    BOOST_TEST(run.service().scheduler(i).pool().held() == 0u);
    BOOST_TEST(run.service().scheduler(i).empty());
  }
  for (const auto& [number, served] : run.served) {
    BOOST_TEST(served.times.tokens.size() == served.request.output_tokens);
    BOOST_TEST((served.times.kv_landed >= served.times.prefilled && served.times.last_token >= served.times.kv_landed));
  }
}

Bytes kv_sent(ServingRunUnderTest& run) {
  return run.simulation.fabric().ledger().totals(number(TrafficClass::kv)).bytes;
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_kv_of_each_prompt_is_fetched_once) {
  ServingRunUnderTest run(
      tiny_serving({kThree, kTwoShapes, "workload.scheduler={max_seqs: 64, prefix_caching: false}"}));
  run_pair(run);
  Bytes of_token = 0;  // over all ranks
  Instance& decode = run.service().instance(1);
  for (std::uint32_t r = 0; r < decode.ranks(); ++r) of_token += decode.kv().bytes_per_token(r / decode.tp());
  BOOST_TEST(kv_sent(run) == (1000 + 1024) * of_token);  // the second request has no tokens left to decode
}

BOOST_AUTO_TEST_CASE(a_prefix_that_is_there_already_is_not_fetched) {
  // Both prompts of a user begin with 512 shared tokens; the second request follows the first one's answer.
  ServingRunUnderTest run(tiny_serving(
      {"workload.requests={count: 2, prompt_tokens: 1000, output_tokens: 5, prefix: {groups: 1, users_per_group: 1, "
       "shared_tokens: 512}}",
       kPair}));
  run_pair(run);
  const Bytes of_token = run.service().instance(1).kv().bytes_per_token(0);
  BOOST_TEST(kv_sent(run) == (1000 + 1000 - 512) * of_token);
}

BOOST_AUTO_TEST_CASE(a_lone_handoff_takes_the_time_of_its_message) {
  const std::string one = "workload.requests={list: [{prompt_tokens: 1024, output_tokens: 4}]}";
  ServingRunUnderTest run(tiny_serving({one, kPair}));
  run_pair(run);
  const Time transfer = run.served[0].times.kv_landed - run.served[0].times.prefilled;
  const Time alone = run.simulation.fabric().uncontended(
      run.service().instance(0).rank(0).gpu->window(), run.service().instance(1).rank(0).gpu->window(),
      number(TrafficClass::kv), 1024 * run.service().instance(1).kv().bytes_per_token(0));
  BOOST_TEST(transfer.fs() == alone.fs());
}

BOOST_AUTO_TEST_CASE(a_pool_that_holds_one_prompt_decodes_one_after_the_other) {
  ServingRunUnderTest run(tiny_serving(
      {"workload.requests={count: 3, prompt_tokens: 1000, output_tokens: 20}", kPair, "workload.kv_blocks=66"}));
  run_pair(run);
  std::vector<Time> begun, done;
  for (const auto& [number, served] : run.served) {
    begun.push_back(served.times.kv_landed);
    done.push_back(served.times.last_token);
  }
  for (std::size_t i = 1; i < begun.size(); ++i) BOOST_TEST((begun[i] >= done[i - 1]), "request " << i);
}
