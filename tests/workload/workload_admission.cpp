// Requests: who is let in when, how many decode together, and that memory is never promised twice.
#include "tests/support/prefill_run.h"
#include "tests/support/systemc_main.h"

using namespace railyard;
using namespace railyard::test;
using workload::inference::RequestTimes;

namespace {

/// A memory limit that leaves room for `tokens` of KV on the decode GPU of tp=1, pp=1.
std::string limit_for(std::uint64_t tokens, const std::vector<std::string>& sets) {
  PrefillRun probe(tiny_scenario(sets));
  const gpu::Hbm& hbm = probe.decode_gpu(0).hbm();
  const Bytes kv = tokens * probe.service().instance(1).grid().kv().bytes_per_token(0);
  return "workload.memory_limit_ratio=" +
         std::to_string(static_cast<double>(hbm.used() + kv) / static_cast<double>(hbm.capacity()));
}

std::string requests(std::uint32_t count, std::uint32_t prompt, std::uint32_t output) {
  return "workload.requests={count: " + std::to_string(count) + ", prompt_tokens: " + std::to_string(prompt) +
         ", output_tokens: " + std::to_string(output) + "}";
}

}  // namespace

BOOST_AUTO_TEST_CASE(memory_is_never_exceeded_and_everybody_is_served) {
  // 12 requests of 1032 tokens where at most three fit at once.
  std::vector<std::string> sets{requests(12, 1024, 8), "workload.decode.steps=trace"};
  sets.push_back(limit_for(3500, sets));
  const Scenario scenario = tiny_scenario(sets);
  PrefillRun run(scenario);
  const double ratio = scenario.spec<workload::inference::ServingSpec>().instances.front().memory.memory_limit_ratio;
  std::vector<const gpu::Gpu*> gpus{&run.prefill_gpu(0), &run.decode_gpu(0)};
  Bytes most = 0;
  run.run([&] {
    for (const gpu::Gpu* gpu : gpus) {
      if (static_cast<double>(gpu->hbm().used()) > ratio * static_cast<double>(gpu->hbm().capacity()))
        BOOST_ERROR("over the limit at " << run.fabric().now().seconds());
    }
    most = std::max(most, gpus[1]->hbm().used());
  });
  BOOST_TEST(run.service().api_server().served() == 12u);
  const Bytes one = 1032 * run.service().instance(1).grid().kv().bytes_per_token(0);
  BOOST_TEST(most == gpus[1]->hbm().used() + 3 * one);  // three at once, not fewer
  for (std::uint32_t r = 1; r < 12; ++r) {
    BOOST_TEST((run.request(r).admitted() >= run.request(r - 1).admitted()));  // first come, first served
    BOOST_TEST((run.request(r).prefill_begun() >= run.request(r - 1).prefill_begun()));
  }
  // The fourth comes in the instant the first is done.
  BOOST_TEST((run.request(3).admitted() == run.request(0).times.tokens.back()));
}

BOOST_AUTO_TEST_CASE(without_pressure_all_are_admitted_on_arrival) {
  const Scenario scenario =
      tiny_scenario({"workload.requests={list: [{prompt_tokens: 512}, {arrival_s: 0.0001, prompt_tokens: 300}, "
                     "{arrival_s: 0.5, prompt_tokens: 700}]}"});
  PrefillRun run(scenario);
  run.run();
  for (std::uint32_t r = 0; r < 3; ++r)
    BOOST_TEST((run.request(r).admitted() == scenario.spec<workload::inference::ServingSpec>().listed->at(r).arrival));
  BOOST_TEST((run.request(1).prefill_begun() > run.request(1).admitted()));  // behind the first
  BOOST_TEST((run.request(2).prefill_begun() == Time::ms(500)));             // the machine is idle: at once
  BOOST_TEST((run.request(0).times.first_token < run.request(1).times.first_token));
}

BOOST_AUTO_TEST_CASE(a_late_request_is_served_as_if_it_were_alone) {
  const Scenario alone = tiny_scenario({"workload.requests={list: [{prompt_tokens: 700}]}"});
  PrefillRun first(alone);
  first.run();
  PrefillRun second(
      tiny_scenario({"workload.requests={list: [{prompt_tokens: 512}, {arrival_s: 0.5, prompt_tokens: 700}]}"}));
  second.run();
  BOOST_TEST((second.request(1).times.first_token - Time::ms(500)).fs() == first.request(0).times.first_token.fs());
  BOOST_TEST((second.request(1).kv_landed() - Time::ms(500)).fs() == first.request(0).kv_landed().fs());
}

BOOST_AUTO_TEST_CASE(requests_follow_each_other_through_the_pipeline_without_a_gap) {
  PrefillRun run(tiny_scenario(
      {requests(3, 512, 2), "workload.prefill.pp=2", "workload.decode.pp=2", "workload.decode.steps=trace"}));
  run.run();
  BOOST_TEST((run.records.named("P_Rank_PP[0]_TP[0]_Chunk[0]_Req[1]").start ==
              run.records.named("P_Rank_PP[0]_TP[0]_Chunk[1]_Req[0]").end));
  BOOST_TEST((run.records.named("P_Rank_PP[0]_TP[0]_Chunk[0]_Req[2]").start ==
              run.records.named("P_Rank_PP[0]_TP[0]_Chunk[1]_Req[1]").end));
}

BOOST_AUTO_TEST_CASE(a_step_decodes_no_more_than_max_batch) {
  for (const std::uint32_t most : {1u, 3u, 8u}) {
    PrefillRun run(tiny_scenario(
        {requests(8, 64, 17), "workload.decode={steps: trace, max_batch: " + std::to_string(most) + "}"}));
    run.run();
    std::map<std::uint64_t, std::uint32_t> tokens_at;
    for (std::uint32_t number = 0; number < run.service().api_server().count(); ++number) {
      const RequestTimes& r = run.request(number).times;
      BOOST_TEST(r.tokens.size() == 17u);
      for (std::size_t i = 1; i < r.tokens.size(); ++i) ++tokens_at[r.tokens[i].fs()];
    }
    std::uint32_t largest = 0;
    for (const auto& [when, count] : tokens_at) largest = std::max(largest, count);
    BOOST_TEST(largest == most);
    BOOST_TEST(run.service().instance(1).engine().tokens_done() == 8u * 16);
    BOOST_TEST(run.service().instance(1).engine().composed() == tokens_at.size());
    BOOST_TEST(run.records.of("D_Rank_").size() == tokens_at.size());
  }
}

BOOST_AUTO_TEST_CASE(each_request_decodes_its_own_number_of_tokens) {
  PrefillRun run(tiny_scenario(
      {"workload.requests={list: [{prompt_tokens: 512, output_tokens: 1}, {prompt_tokens: 300, output_tokens: 9}, "
       "{prompt_tokens: 64, output_tokens: 3}]}",
       "workload.decode.steps=trace"}));
  run.run();
  const std::vector<std::size_t> expected{1, 9, 3};
  for (std::uint32_t r = 0; r < 3; ++r) {
    const workload::inference::Stay& served = run.request(r);
    const RequestTimes& t = served.times;
    BOOST_TEST(t.tokens.size() == expected[r]);
    BOOST_TEST((t.tokens.front() == t.first_token));
    BOOST_TEST((served.admitted() <= served.prefill_begun()));
    BOOST_TEST((served.prefill_begun() < t.first_token));
    BOOST_TEST((t.first_token <= served.kv_landed()));
    BOOST_TEST((served.kv_landed() <= served.decode_begun()));
    BOOST_TEST(std::is_sorted(t.tokens.begin(), t.tokens.end()));
  }
  BOOST_TEST(run.service().instance(1).engine().tokens_done() == 10u);
}

BOOST_AUTO_TEST_CASE(what_does_not_fit_even_alone_is_refused) {
  std::vector<std::string> sets{requests(1, 4096, 2), "workload.decode.steps=trace"};
  sets.push_back(limit_for(2048, sets));
  const Scenario scenario = tiny_scenario(sets);
  BOOST_CHECK_EXCEPTION(PrefillRun{scenario}, InputError, [](const InputError& e) {
    const std::string what = e.what();
    return what.find("workload.") != std::string::npos && what.find('\n') == std::string::npos;
  });
}

BOOST_AUTO_TEST_CASE(as_many_batches_decode_at_a_time_as_there_are_stages) {
  for (const std::uint32_t stages : {1u, 2u, 3u}) {
    PrefillRun run(tiny_scenario(
        {requests(6, 1024, 40), "workload.decode.steps=trace", "workload.decode.pp=" + std::to_string(stages)}));
    run.run();
    struct Interval {
      Time from = Time::max(), to;
    };
    std::map<std::uint32_t, Interval> steps;
    Time longest;  // step of a stage
    for (const JobRow& row : run.records.of("D_Rank_")) {
      longest = later(longest, row.end - row.start);
      Interval& step = steps[static_cast<std::uint32_t>(std::stoul(row.name().substr(row.name().rfind('[') + 1)))];
      step.from = sooner(step.from, row.start);
      step.to = later(step.to, row.end);
    }
    std::size_t most = 0;
    for (const auto& [number, step] : steps) {
      std::size_t in_flight = 0;
      for (const auto& [other, interval] : steps) in_flight += interval.from <= step.from && step.from < interval.to;
      most = std::max(most, in_flight);
    }
    BOOST_TEST(most == stages);
    for (std::uint32_t r = 0; r < 6; ++r) BOOST_TEST(run.request(r).times.tokens.size() == 40u);
    // A request starts a batch at once if fewer batches than stages are in flight: it waits at most for the batch on the
    // first stage, not for a token.
    if (stages > 1) BOOST_TEST((run.request(1).decode_begun() <= run.request(1).kv_landed() + longest));
  }
}
