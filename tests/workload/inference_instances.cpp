// Several instances of one service: each does what it does alone, as far as nothing is shared, and KV goes from any to any.
#include "tests/support/serving_run.h"
#include "tests/support/systemc_main.h"

using namespace railyard;
using namespace railyard::test;
using namespace railyard::workload::inference;

namespace {

const std::vector<std::string> kNames{"a", "b", "c"};

/// Requests that overlap, with the instance of each in turn.
struct Item {
  double arrival_s;
  std::uint32_t prompt, output;
  std::string instance;
};
std::vector<Item> items() {
  std::vector<Item> all;
  for (std::uint32_t i = 0; i < 24; ++i)
    all.push_back({i / 4 * 0.0007, 100 + 97 * i % 900, 1 + i * 7 % 12, kNames[(i * 5 + i / 7) % 3]});
  return all;
}

/// The requests of one instance, or of all.
std::string list_of(const std::string& only) {
  std::string text;
  for (const Item& item : items())
    if (only.empty() || item.instance == only)
      text += std::string(text.empty() ? "" : ", ") + "{arrival_s: " + std::to_string(item.arrival_s) +
              ", prompt_tokens: " + std::to_string(item.prompt) + ", output_tokens: " + std::to_string(item.output) +
              ", instance: " + item.instance + "}";
  return "workload.requests={list: [" + text + "]}";
}

std::string instance_of(const std::string& name, const std::string& more = "") {
  return "{name: " + name + ", gpus: [" + std::to_string(2 * (name[0] - 'a')) + "]" + more + "}";
}

const std::vector<std::string> kCommon{
    "workload.scheduler={max_batched_tokens: 384, max_seqs: 4}",
    "workload.host=" + host_of("async: false, request_us: 300, step_us: 50, token_us: 7"), "workload.kv_blocks=120"};

std::vector<std::string> with(std::vector<std::string> sets, const std::vector<std::string>& common = kCommon) {
  sets.insert(sets.end(), common.begin(), common.end());
  return sets;
}

/// Three instances whose requests name them do what each does as the only one.
void check_alone(const std::vector<std::string>& common, const std::vector<std::string>& instances) {
  ServingBench all(
      tiny_serving(with({list_of(""), "workload.router=fixed",
                         "workload.instances=[" + instances[0] + ", " + instances[1] + ", " + instances[2] + "]"},
                        common)));
  all.run();
  for (std::uint32_t id = 0; id < kNames.size(); ++id) {
    BOOST_TEST_INFO_SCOPE("instance " << kNames[id]);
    ServingBench alone(tiny_serving(with({list_of(kNames[id]), "workload.instances=[" + instances[id] + "]"}, common)));
    alone.run();
    std::size_t next = 0;
    for (std::size_t i = 0; i < all.served.size(); ++i) {
      if (items()[i].instance != kNames[id]) continue;
      const Stay &here = all.served[i], &there = alone.served.at(next++);
      BOOST_TEST_REQUIRE(here.visits.size() == 1u);
      BOOST_TEST(here.instance() == id);
      BOOST_TEST((here.times.queued == there.times.queued && here.prefill_begun() == there.prefill_begun()));
      BOOST_TEST((here.times.tokens == there.times.tokens));
      BOOST_TEST((here.ttft.all() == there.ttft.all()));
      BOOST_TEST(here.counts.preemptions == there.counts.preemptions);
    }
    BOOST_TEST(next == alone.served.size());
    BOOST_TEST(all.service().instance(id).engine().composed() == alone.service().instance(0).engine().composed());
    BOOST_TEST(!all.records.of("It[0]_PP[0]_TP[0]_Inst[" + kNames[id] + "]").empty());
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(each_of_three_instances_does_what_it_does_alone) {
  check_alone(kCommon, {instance_of("a"), instance_of("b"), instance_of("c")});
}

/// Schedulers, hosts, CUDA graphs and API servers of three engines.
BOOST_AUTO_TEST_CASE(each_of_three_engines_does_what_it_does_alone) {
  check_alone({"workload.scheduler={max_batched_tokens: 1024, max_seqs: 4}", "workload.kv_blocks=120"},
              {instance_of("a", ", engine: sglang-0.5"), instance_of("b"), instance_of("c", ", engine: vllm-0.6")});
}

/// KV caches in three formats.
BOOST_AUTO_TEST_CASE(each_of_three_kv_formats_does_what_it_does_alone) {
  check_alone({"workload.scheduler={max_batched_tokens: 1024, max_seqs: 4}"},
              {instance_of("a", ", kv_dtype: fp8"), instance_of("b"), instance_of("c", ", kv_dtype: fp16")});
}

BOOST_AUTO_TEST_CASE(an_instance_is_as_a_model_with_its_kv_format) {
  struct Seen {
    std::vector<std::vector<Time>> tokens;
    Bytes block = 0;
    std::uint32_t blocks = 0;
    Time attention;  ///< of a decode after 100 000 tokens, beyond that of a decode after one
  };
  const auto run_with = [](const std::string& format) {
    ServingBench run(tiny_serving(
        {"workload.requests={count: 8, arrivals: at_once, prompt_tokens: 4000, output_tokens: 9}", format}));
    run.run();
    Seen seen;
    for (const Stay& served : run.served) seen.tokens.push_back(served.times.tokens);
    seen.block = run.instance().block_bytes(0, 16);
    seen.blocks = run.service().instance(0).scheduler().memory().total + 1;
    seen.attention = run.pass_time(decodes({100000})) - run.pass_time(decodes({1}));
    return seen;
  };
  const Seen own = run_with("workload.instances=[{name: a, kv_dtype: fp8}]"), of_model = run_with("model.kv_dtype=fp8"),
             wide = run_with("model.kv_dtype=bf16");
  BOOST_TEST((own.tokens == of_model.tokens));
  BOOST_TEST((own.attention == of_model.attention));
  BOOST_TEST(own.blocks == of_model.blocks);
  // Half of the bytes: twice the blocks, or one more where two do not fill the rest; and a decode reads half.
  BOOST_TEST(2 * own.block == wide.block);
  BOOST_TEST((own.blocks == 2 * wide.blocks || own.blocks == 2 * wide.blocks + 1));
  BOOST_TEST(own.attention.seconds() == wide.attention.seconds() / 2, boost::test_tools::tolerance(0.1));
}

BOOST_AUTO_TEST_CASE(kv_of_a_narrow_format_moves_as_such) {
  const std::string three = "workload.requests={count: 3, prompt_tokens: 1000, output_tokens: 3}";
  std::vector<Bytes> moved;
  for (const std::string format : {"", ", kv_dtype: fp8"}) {
    ServingBench run(tiny_serving({three, "workload.instances=[{name: p, role: prefill" + format +
                                              "}, {name: d, role: decode" + format + ", gpus: [4]}]"}));
    run.run();
    moved.push_back(run.simulation.fabric().ledger().totals(number(TrafficClass::kv)).bytes);
    BOOST_TEST(moved.back() == 3 * 1000 * run.service().instance(1).grid().kv().bytes_per_token(0));
  }
  BOOST_TEST(moved[0] == 2 * moved[1]);
}

BOOST_AUTO_TEST_CASE(kv_goes_from_any_instance_to_any) {
  // Far apart, so that each request is alone: all take the time of a pair's only request.
  const std::string roles =
      "workload.instances=[{name: d0, role: decode, gpus: [4]}, {name: p0, role: prefill, gpus: [0]}, "
      "{name: d1, role: decode, gpus: [6]}, {name: p1, role: prefill, gpus: [2]}]";
  std::string list;
  for (std::uint32_t i = 0; i < 4; ++i)
    list += std::string(i > 0 ? ", " : "") + "{arrival_s: " + std::to_string(i) +
            ", prompt_tokens: 700, output_tokens: 5, instance: p" + std::to_string(i / 2) + ", decode_instance: d" +
            std::to_string(i % 2) + "}";
  for (const std::string handoff : {"pull", "push_per_chunk"}) {
    BOOST_TEST_INFO_SCOPE(handoff);
    ServingBench run(
        tiny_serving({"workload.requests={list: [" + list + "]}", roles, "workload.kv_transfer.mode=" + handoff}));
    run.run();
    const Stay& first = run.served[0];
    for (std::uint32_t i = 0; i < 4; ++i) {
      const Stay& served = run.served[i];
      BOOST_TEST_REQUIRE(served.visits.size() == 2u);
      const Visit &prompt = served.visits[0], &answer = served.visits[1];
      BOOST_TEST(prompt.instance == i / 2);
      BOOST_TEST(answer.instance == 2 + i % 2);
      BOOST_TEST((prompt.arrival <= *prompt.begun && *prompt.begun < *prompt.first_token));
      BOOST_TEST((answer.kv_promised <= answer.kv_landed && answer.kv_landed <= *answer.begun));
      BOOST_TEST((*answer.begun < answer.done));
      BOOST_TEST((served.times.last_token - served.request.arrival).seconds() ==
                     (first.times.last_token - first.request.arrival).seconds(),
                 boost::test_tools::tolerance(0.02));  // the routes differ by a switch
    }
    const Bytes of_token = run.service().instance(2).grid().kv().bytes_per_token(0);
    BOOST_TEST(run.simulation.fabric().ledger().totals(number(TrafficClass::kv)).bytes == 4 * 700 * of_token);
    BOOST_TEST(run.records.of("Handoff_PP[0]_TP[0]").size() > 0u);
    for (const char* pair : {"_FromInst[p0]_ToInst[d1]", "_FromInst[p1]_ToInst[d0]"}) {
      const auto has = [&](const JobRow& row) { return row.name().find(pair) != std::string::npos; };
      BOOST_TEST(std::any_of(run.records.all.begin(), run.records.all.end(), has), pair);
    }
  }
}
