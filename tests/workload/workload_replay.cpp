// A pipeline's collectives are replayed where no stage sends over their links meanwhile, and everything is as if all had been
// simulated: random engines, mappings, requests and events.
#include "base/random.h"
#include "tests/support/job_bench.h"
#include "tests/support/results_text.h"
#include "tests/support/serving_run.h"
#include "tests/support/systemc_main.h"
#include "workload/inference/engine/stage_sends.h"

using namespace railyard;
using namespace railyard::test;
using namespace railyard::workload::inference;

namespace {

struct Outcome {
  std::string text;  ///< all reported jobs, and the counters of all ports
  std::uint64_t transactions = 0, replayed = 0;
};

Outcome run(const Scenario& scenario, bool replay) {
  ServingBench bench(scenario);
  if (!replay) bench.simulation.workload().executor().simulate_every_collective();
  bench.run();
  Outcome outcome;
  outcome.text = results_text(bench.records, bench.fabric());
  outcome.transactions = bench.fabric().hop_transactions();
  outcome.replayed = bench.fabric().replayed_transactions();
  return outcome;
}

}  // namespace

BOOST_AUTO_TEST_CASE(pipelines_run_with_replays_as_without) {
  Random random(7, 0);
  const auto one_of = [&](const std::vector<std::string>& all) { return all[random.below(all.size())]; };
  std::uint64_t transactions = 0, replayed = 0;
  for (int trial = 0; trial < 40; ++trial) {
    const std::string tp = one_of({"2", "2", "4"}), pp = tp == "4" ? "2" : one_of({"2", "3", "4"});
    const std::string requests =
        "workload.requests={count: 6, arrivals: poisson, rate_per_s: " + one_of({"200", "2000", "20000"}) +
        ", prompt_tokens: {lognormal: {mean: 300, cv_ratio: 1}}, output_tokens: "
        "{lognormal: {mean: 8, cv_ratio: 0.5}}}";
    std::vector<std::string> sets{
        requests,
        "workload.engine=" + one_of({"vllm-0.19", "vllm-0.15", "sglang-0.5", "trtllm-1.0"}),
        "workload.host=" + one_of({"none", "{step_us: 40, async: true}", "{layer_us: 9, async: false}"}),
        "workload.instances=[{name: a, tp: " + tp + ", pp: " + pp + "}]",
        "workload.scheduler.max_in_flight=" + one_of({"1", "2", "3"}),
        "workload.scheduler.max_batched_tokens=" + one_of({"64", "256", "1024"}),
        "fabric.fidelity=" + one_of({"train", "train", "fluid"})};
    if (random.below(3) == 0) sets.push_back("events=[{at_us: 900, gpu: gpus0.gpu1, slow_ratio: 0.6}]");
    const Scenario scenario = tiny_serving(sets, "dgx_h100");
    const Outcome simulated = run(scenario, false), with_replays = run(scenario, true);
    BOOST_TEST((with_replays.text == simulated.text), "trial " << trial);
    BOOST_TEST(simulated.replayed == 0u);
    transactions += with_replays.transactions;
    replayed += with_replays.replayed;
  }
  // Far above what is left if stages have no horizon, or if their ranks drift apart.
  BOOST_TEST(static_cast<double>(replayed) > 0.65 * static_cast<double>(transactions));
}

namespace {

struct Composed {
  std::string text;  ///< everything that a run leaves behind, exactly
  std::uint64_t composed = 0, jobs = 0, preempted = 0;
};

enum class How { simulated, replayed, composed };

Composed run_composed(Scenario scenario, How how) {
  scenario.fabric.compose = how == How::composed;
  ServingBench bench(scenario, false);
  if (how == How::simulated) bench.simulation.workload().executor().simulate_every_collective();
  bench.records.takes_details = false;
  bench.run();
  Composed outcome;
  std::string& text = outcome.text;
  const auto add = [&text](const char* what, std::initializer_list<double> all) {
    text += what;
    for (const double each : all) text += fmt::format(" {:a}", each);
    text += "\n";
  };
  const auto fs = [](Time t) { return static_cast<double>(t.fs()); };
  text += results_text(bench.records, bench.fabric());
  for (std::size_t c = 0; c < transport::kMaxClasses; ++c) {
    const transport::ClassTotals& t = bench.fabric().ledger().totals(c);
    add("class",
        {static_cast<double>(t.messages), static_cast<double>(t.bytes), t.actual.seconds(), t.uncontended.seconds()});
  }
  const Time end = bench.simulation.finished();
  for (std::size_t i = 0; i < bench.service().instances(); ++i) {
    const Instance& instance = bench.service().instance(i);
    for (std::uint32_t r = 0; r < instance.grid().ranks(); ++r) {
      const gpu::Gpu& gpu = *instance.grid().rank(r).gpu;
      add("gpu", {gpu.sms().busy_sm_seconds(end), gpu.sms().kernel_bytes(end), gpu.sms().kernel_seconds(),
                  gpu.sms().kernel_seconds_alone(), gpu.sms().claim_wait_seconds(),
                  static_cast<double>(bench.simulation.machine().memory_traffic().bytes(gpu))});
      const RankTimes& t = instance.engine().pipeline().times(r);
      add("rank", {t.kernels_s, t.tp_s, t.tp_sync_s, t.pp_s, t.host_s, t.occupied_s});
    }
  }
  for (const ServingBench::Step& step : bench.steps) {
    outcome.preempted += step.batch.preempted.size();
    add("batch", {fs(step.composed), fs(step.begun), fs(step.completed)});
    for (const ServingBench::Uses& uses : step.stages)
      for (const Time use : uses) add("use", {fs(use)});
  }
  for (const Stay& served : bench.served) {
    for (const Time t : served.ttft.all()) add("ttft", {fs(t)});
    for (const Time t : served.times.tokens) add("token", {fs(t)});
  }
  outcome.composed = bench.simulation.workload().executor().composed_jobs();
  outcome.jobs = outcome.composed + bench.simulation.workload().executor().jobs();
  return outcome;
}

}  // namespace

BOOST_AUTO_TEST_CASE(passes_that_are_composed_are_as_those_that_run) {
  Random random(11, 0);
  const auto one_of = [&](const std::vector<std::string>& all) { return all[random.below(all.size())]; };
  std::uint64_t jobs = 0, composed = 0, preempted = 0;
  for (int trial = 0; trial < 40; ++trial) {
    const std::string tp = one_of({"2", "4", "8"}), pp = tp == "8" ? "1" : one_of({"1", tp == "2" ? "3" : "2"});
    std::vector<std::string> sets{
        "workload.requests={count: 6, arrivals: poisson, rate_per_s: " + one_of({"200", "2000", "20000"}) +
            ", prompt_tokens: {lognormal: {mean: 300, cv_ratio: 1}}, output_tokens: {lognormal: {mean: 12, cv_ratio: "
            "0.5}}}",
        "workload.engine=" + one_of({"vllm-0.19", "vllm-0.15", "sglang-0.5", "trtllm-1.0"}),
        "workload.host=" + one_of({"none", "{step_us: 40, async: true}", "{layer_us: 9, async: false}"}),
        "workload.instances=[{name: a, tp: " + tp + ", pp: " + pp + "}]",
        "workload.scheduler.max_in_flight=" + one_of({"1", "2", "3"}),
        "workload.scheduler.max_batched_tokens=" + one_of({"64", "256", "1024"}),
        "fabric.fidelity=" + one_of({"train", "fluid"})};
    if (random.below(4) == 0) {  // too few blocks for all, so that requests lose theirs
      sets.push_back("workload.requests={count: 6, prompt_tokens: 200, output_tokens: 40}");
      sets.push_back("workload.kv_blocks=40");
    }
    if (random.below(3) == 0)
      sets.push_back("events=[{at_us: " + one_of({"900", "1700", "2900"}) + ", gpu: gpus0.gpu1, slow_ratio: 0.6}]");
    const Scenario scenario = tiny_serving(sets, "dgx_h100");
    const Composed ran = run_composed(scenario, How::replayed), added = run_composed(scenario, How::composed);
    BOOST_TEST((added.text == ran.text),
               "trial " << trial << ": " << added.composed << " of " << added.jobs << " composed");
    BOOST_TEST(ran.composed == 0u);
    BOOST_TEST(added.jobs == ran.jobs);
    jobs += added.jobs;
    composed += added.composed;
    preempted += added.preempted;
  }
  // Far above what is left if one kind of these passes is not composed: six layers, of which two or three run.
  BOOST_TEST(static_cast<double>(composed) > 0.5 * static_cast<double>(jobs));
  BOOST_TEST(preempted > 0u);
}

BOOST_AUTO_TEST_CASE(passes_beside_kv_transfers_are_composed_as_those_that_run) {
  Random random(13, 0);
  const auto one_of = [&](const std::vector<std::string>& all) { return all[random.below(all.size())]; };
  std::uint64_t jobs = 0, composed = 0;
  std::uint64_t pushed_jobs = 0, pushed_composed = 0;  // with KV that is pushed, not per layer
  for (int trial = 0; trial < 30; ++trial) {
    const std::string mode = one_of({"pull", "push_per_layer", "push_per_chunk", "push_at_end"});
    std::vector<std::string> sets{
        "workload.requests={count: 8, arrivals: " +
            one_of({"poisson, rate_per_s: 200", "poisson, rate_per_s: 2000", "poisson, rate_per_s: 20000",
                    "closed_loop, concurrency: 3"}) +
            ", prompt_tokens: {lognormal: {mean: 300, cv_ratio: 1}}, output_tokens: {lognormal: {mean: 12, cv_ratio: "
            "0.7}}}",
        "workload.engine=" + one_of({"vllm-0.19", "vllm-0.15", "sglang-0.5", "trtllm-1.0"}),
        "workload.host=" + one_of({"none", "{step_us: 40, async: true}", "{layer_us: 9, async: false}"}),
        "workload.instances=[{name: p, role: prefill, " + one_of({"tp: 2, count: 2", "tp: 4"}) +
            "}, {name: d, role: " + one_of({"decode", "decode", "decode", "colocated"}) + ", " +
            one_of({"tp: 2, pp: 2", "tp: 4", "tp: 2, count: 2"}) + "}]",
        "workload.router={policy: round_robin" +
            one_of({"", ", decode: link_aware", ", decider: uncached_tokens, decider_tokens: 200",
                    ", decider: prefill_load, queue_threshold: 0.5"}) +
            "}",
        "workload.kv_transfer={mode: " + mode + ", connector: " + one_of({"none", "nixl"}) +
            one_of({"", ", metadata_us: 300, prepare_us: 0.1, first_contact: in_run"}) + "}",
        "workload.scheduler.max_in_flight=" + one_of({"1", "2", "3"}),
        "workload.scheduler.max_batched_tokens=" + one_of({"64", "256", "1024"}),
        "fabric.fidelity=" + one_of({"train", "fluid"})};
    if (random.below(3) == 0) {  // prompts of groups, few blocks on the GPUs, and more in host memory
      sets.push_back(
          "workload.requests={count: 9, arrivals: poisson, rate_per_s: 2000, prompt_tokens: 300, output_tokens: 9, "
          "prefix: {groups: 2, users_per_group: 2, shared_tokens: 200}}");
      sets.push_back("workload.kv_blocks=" + one_of({"30", "60"}));
      sets.push_back("workload.kv_tiers.host={bytes_per_server: 1.0e+8, pool: " + one_of({"instance", "server"}) + "}");
    }
    const Scenario scenario = tiny_serving(sets, "dgx_h100");
    const Composed ran = run_composed(scenario, How::replayed), added = run_composed(scenario, How::composed);
    BOOST_TEST((added.text == ran.text),
               "trial " << trial << ": " << added.composed << " of " << added.jobs << " composed");
    BOOST_TEST(added.jobs == ran.jobs);
    const Composed simulated = run_composed(scenario, How::simulated);
    BOOST_TEST((ran.text == simulated.text), "trial " << trial);
    jobs += added.jobs;
    composed += added.composed;
    if (mode != "push_per_chunk" && mode != "push_at_end") continue;
    pushed_jobs += added.jobs;
    pushed_composed += added.composed;
  }
  BOOST_TEST(static_cast<double>(composed) > 0.15 * static_cast<double>(jobs));
  BOOST_TEST(static_cast<double>(pushed_composed) > 0.15 * static_cast<double>(pushed_jobs));
}

BOOST_AUTO_TEST_CASE(passes_of_two_stages_are_composed_beside_copies_in_host_memory) {
  // One or two requests at a time, so that another batch could always be composed.
  const Scenario scenario = tiny_serving(
      {"workload.requests={count: 12, arrivals: constant, rate_per_s: 100, prompt_tokens: 300, output_tokens: 30, "
       "prefix: {groups: 2, users_per_group: 2, shared_tokens: 200}}",
       "workload.instances=[{name: a, tp: 2, pp: 2}]", "workload.kv_blocks=60",
       "workload.kv_tiers.host.bytes_per_server=1e8"},
      "dgx_h100");
  const Composed ran = run_composed(scenario, How::replayed), added = run_composed(scenario, How::composed);
  BOOST_TEST((added.text == ran.text));
  BOOST_TEST(static_cast<double>(added.composed) > 0.6 * static_cast<double>(added.jobs));
}

BOOST_AUTO_TEST_CASE(drafts_come_however_passes_run) {
  Random random(17, 0);
  const auto one_of = [&](const std::vector<std::string>& all) { return all[random.below(all.size())]; };
  std::uint64_t composed = 0, preempted = 0;
  for (int trial = 0; trial < 16; ++trial) {
    std::vector<std::string> sets{
        "workload.requests={count: 6, arrivals: poisson, rate_per_s: " + one_of({"200", "2000"}) +
            ", prompt_tokens: {lognormal: {mean: 200, cv_ratio: 1}}, output_tokens: {lognormal: {mean: 15, cv_ratio: "
            "0.5}}}",
        "workload.engine=" + one_of({"vllm-0.19", "vllm-0.12", "sglang-0.5", "trtllm-1.0"}),
        "workload.host=" + one_of({"none", "{step_us: 40, async: true}", "{layer_us: 9, async: false}"}),
        "workload.speculation={method: " +
            one_of({"ngram", "eagle", "mtp", "eagle, draft_tp: 1", "draft, draft_model: " + kTinyModel}) +
            ", tokens: " + one_of({"1", "2", "4"}) + ", acceptance: 0.6}",
        "workload.instances=" + one_of({"[{name: a, tp: 2}]", "[{name: a, tp: 4}]", "[{name: a, tp: 2, pp: 2}]",
                                        "[{name: p, role: prefill, tp: 2}, {name: d, role: decode, tp: 2}]"}),
        "fabric.fidelity=" + one_of({"train", "fluid"})};
    if (random.below(3) == 0) {
      sets.push_back("workload.requests={count: 6, prompt_tokens: 200, output_tokens: 40}");
      sets.push_back("workload.kv_blocks=40");
    }
    const Scenario scenario = tiny_serving(sets, "dgx_h100");
    const Composed simulated = run_composed(scenario, How::simulated), ran = run_composed(scenario, How::replayed),
                   added = run_composed(scenario, How::composed);
    BOOST_TEST((ran.text == simulated.text), "trial " << trial);
    BOOST_TEST((added.text == ran.text), "trial " << trial);
    composed += added.composed;
    preempted += added.preempted;
  }
  BOOST_TEST(composed > 0u);
  BOOST_TEST(preempted > 0u);
}

BOOST_AUTO_TEST_CASE(a_stage_sends_when_its_kernels_have_run_and_not_before) {
  JobBench bench;
  const auto at = [&](Time when, std::function<void()> what) { bench.later_on(when, std::move(what)); };
  StageSends sends("PP[1]", bench.fabric, 2, {Time::us(5), Time::us(1)});
  const auto expect = [&](Time from) { BOOST_TEST((sends.from() == from), sends.from().seconds() * 1e6 << " us"); };
  const auto expect_kv = [&](Time from) {
    BOOST_TEST((sends.next_kv() == from), sends.next_kv().seconds() * 1e6 << " us");
  };
  at(Time::us(1), [&] {
    expect(Time::us(6));  // a pass may begin now, and takes at least 5 us
    expect_kv(Time::us(5));
    sends.emitted({Time::us(30), Time::us(4)});
    expect(Time::us(31));
    expect_kv(Time::us(27));
    sends.emitted({Time::us(7), Time::us(2)});
  });
  at(Time::us(10), [&] {
    sends.begun(0, Time::us(30));
    expect(Time::us(40));
    expect_kv(Time::us(36));
  });
  at(Time::us(12), [&] {
    sends.begun(1, Time::us(30));
    expect(Time::us(40));
  });
  at(Time::us(35), [&] {
    sends.begun(0, Time::us(9));  // its last kernels, late
    expect(Time::us(42));
    expect_kv(Time::us(38));
  });
  at(Time::us(44), [&] {
    sends.left(0, true);
    expect(Time::us(44));
    expect_kv(Time::us(44));  // of the other rank, at any time
    BOOST_TEST(sends.sends() == 1u);
  });
  at(Time::us(46), [&] {
    sends.arrived();
    expect(Time::us(42));  // the other rank may send at any time
    sends.left(1, true);
    sends.arrived();
    expect(Time::us(53));  // the second pass
    expect_kv(Time::us(51));
    BOOST_TEST(sends.sends() == 2u);
  });
  at(Time::us(52), [&] { BOOST_CHECK_THROW(sends.left(0, true), transport::BrokenHorizon); });
  bench.run();
}
