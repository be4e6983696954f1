// Instances that are drained, fail and join while requests are served: all requests get their answers, KV is where it should be, and
// runs with replays are as those that simulate everything.
#include <set>

#include "base/random.h"
#include "tests/support/serving_run.h"
#include "tests/support/systemc_main.h"
#include "transformer/parameters.h"

using namespace railyard;
using namespace railyard::test;
using namespace railyard::workload::inference;

namespace {

const std::string kTwo = "workload.instances=[{name: a, gpus: [0]}, {name: b, gpus: [4]}]";
const std::string kLoad =
    "workload.requests={count: 24, arrivals: poisson, rate_per_s: 3000, prompt_tokens: 700, output_tokens: 30}";

Time us(double at) { return Time::seconds(at * 1e-6); }

/// Looks at all instances when a batch completes: the KV of a request is somewhere from the first kernel of its prompt to its last
/// token, and in two places only while it moves. @pre nobody is preempted
class KvWatch : public ServiceSink {
 public:
  explicit KvWatch(Service& service) : service_(service) { service.add_sink(*this); }
  std::uint64_t looked = 0, moving = 0;

 private:
  bool has_blocks(std::size_t instance, std::uint32_t request) const {
    try {
      return !service_.instance(instance).scheduler().blocks(request).empty();
    } catch (const std::out_of_range&) {
      return false;
    }
  }
  void on_iteration(std::size_t, std::uint32_t, const Iteration&, Time) override {
    for (const std::uint32_t request : service_.api_server().requests()) {
      const Stay& served = service_.api_server().on_way(request);
      if (served.visits.empty() || served.is_kv_lost) continue;
      std::set<std::uint32_t> places;
      for (std::uint32_t i = 0; i < service_.instances(); ++i)
        if (has_blocks(i, request)) places.insert(i);
      const Visit &first = served.visits.front(), &last = served.visits.back();
      for (const std::uint32_t place : places) BOOST_TEST_REQUIRE((place == first.instance || place == last.instance));
      if (!first.begun || last.done) continue;
      ++looked;
      BOOST_TEST_REQUIRE(!places.empty());
      if (places.size() == 2) {
        ++moving;
        BOOST_TEST_REQUIRE((last.kv_promised && !last.kv_landed));
      }
    }
  }
  Service& service_;
};

void check_parts(ServingBench& run) {
  for (const Stay& served : run.served) {
    Time sum;
    for (const Time part : served.ttft.all()) sum += part;
    BOOST_TEST_REQUIRE((sum == served.times.first_token - served.request.arrival));
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_drained_instance_serves_what_it_has_and_takes_no_more) {
  ServingBench run(
      tiny_serving({kLoad, kTwo, "workload.router=round_robin", "events=[{at_us: 3000, instance: b, drain: true}]"}));
  run.run();
  for (const Stay& served : run.served) {
    BOOST_TEST(served.restarts == 0u);
    if (served.request.arrival >= us(3000)) BOOST_TEST(served.instance() == 0u);
  }
  BOOST_TEST(std::count_if(run.served.begin(), run.served.end(),
                           [](const Stay& served) { return served.instance() == 1; }) > 0);
}

BOOST_AUTO_TEST_CASE(requests_of_a_failed_instance_begin_again_with_the_tokens_that_they_have) {
  // One request, which the router sends to the first of equal instances.
  const std::string one = "workload.requests={list: [{prompt_tokens: 1024, output_tokens: 60}]}";
  ServingBench alone(tiny_serving({one, kTwo, "workload.router=least_requests"}));
  alone.run();
  const Time at = alone.served[0].times.tokens[20] + Time::us(1);
  ServingBench run(tiny_serving({one, kTwo, "workload.router=least_requests",
                                 fmt::format("events=[{{at_us: {}, instance: a, fail: true}}]", at.seconds() * 1e6)}));
  run.run();
  const Stay& served = run.served[0];
  BOOST_TEST(served.restarts == 1u);
  BOOST_TEST(served.instance() == 1u);
  BOOST_TEST(served.resumed_tokens == 21u);
  BOOST_TEST(served.lost_tokens >= 1024u + 20);  // of the 22nd token, the KV before it
  BOOST_TEST(served.lost_tokens <= 1024u + 21);
  BOOST_TEST(served.repeated_tokens == served.lost_tokens);
  for (std::size_t i = 0; i <= 20; ++i) BOOST_TEST((served.times.tokens[i] == alone.served[0].times.tokens[i]));
  // Prompt and known tokens are one prompt now, whose pass brings the next token.
  const Time pass = run.pass_time(chunk(0, 1024 + 21, true));
  BOOST_TEST((served.times.tokens[21] - at).seconds() == pass.seconds(), boost::test_tools::tolerance(1e-6));
  check_parts(run);
}

BOOST_AUTO_TEST_CASE(what_is_cached_elsewhere_is_not_computed_again) {
  // The second user's prompt begins as the first one's, which the other instance has computed.
  const std::string users =
      "workload.requests={count: 2, arrivals: constant, rate_per_s: 200, prompt_tokens: 1000, output_tokens: 40, "
      "prefix: "
      "{groups: 1, users_per_group: 2, shared_tokens: 512}}";
  ServingBench run(
      tiny_serving({users, kTwo, "workload.router=round_robin", "events=[{at_us: 11000, instance: b, fail: true}]"}));
  run.run();
  const Stay& lost = run.served[1];
  BOOST_TEST(lost.restarts == 1u);
  BOOST_TEST(lost.lost_tokens >= 1000u);
  BOOST_TEST(lost.repeated_tokens == lost.lost_tokens - 512);
}

BOOST_AUTO_TEST_CASE(an_instance_joins_when_its_weights_have_come) {
  for (const std::string from : {"host", "a"}) {
    ServingBench run(tiny_serving({kLoad, "workload.requests.rate_per_s=200", kTwo, "workload.router=round_robin",
                                   "events=[{at_us: 1000, instance: b, join: " + from + "}]"}));
    Grid& grid = run.service().instance(1).grid();
    const Bytes bytes = transformer::rank_weight_bytes(grid.model(), grid.stage(0), 1);
    run.run();
    BOOST_TEST(run.service().loaded_weights() == bytes);
    const JobRow& load = run.records.named("WeightLoad_PP[0]_TP[0]_Inst[b]");
    BOOST_TEST((load.start == us(1000)));
    // By copy engines over PCIe or NVLink, with nothing else in their way: not faster than the link of 64 GB/s.
    BOOST_TEST((load.end - load.start).seconds() >= static_cast<double>(bytes) / 64e9);
    bool has_served = false;
    for (const Stay& served : run.served) {
      if (served.instance() != 1) continue;
      has_served = true;
      BOOST_TEST((served.visits.front().arrival >= load.end));
    }
    BOOST_TEST(has_served);
  }
}

BOOST_AUTO_TEST_CASE(attention_replicas_fail_and_join_together) {
  for (const std::string from : {"host", "b"}) {
    ServingBench run(tiny_serving(
        {"model.config=" + kSource + "/tests/models/tiny_experts.json", kLoad, "workload.requests.rate_per_s=600",
         "workload.instances=[{name: a, dp: 2}, {name: b, dp: 2}]", "workload.router=round_robin",
         "events=[{at_us: 15000, instance: a, fail: true}, {at_us: 16000, instance: a, join: " + from + "}]"},
        "dgx_h100"));
    Grid& grid = run.service().instance(0).grid();
    const transformer::RankParameters rank = transformer::rank_parameters(grid.model(), grid.stage(0), 1, 2);
    run.run();
    // Each replica has all weights but those of experts, of which it has a half.
    BOOST_TEST(run.service().loaded_weights() == 2 * 2 * rank.total());
    std::uint64_t restarts = 0, after = 0;
    for (const Stay& served : run.served) {
      restarts += served.restarts;
      after += served.instance() == 0 && served.visits.front().arrival >= us(16000);
    }
    BOOST_TEST(restarts > 0u);
    BOOST_TEST(after > 0u);
    check_parts(run);
  }
}

// Nobody tells an instance that keeps KV that the one which asked for it has failed: a lease ends that.
BOOST_AUTO_TEST_CASE(kv_for_a_failed_instance_is_kept_until_its_lease_ends) {
  const std::string three =
      "workload.instances=[{name: p, role: prefill}, {name: d, role: decode, gpus: [4]}, {name: e, role: decode, gpus: "
      "[5]}]";
  const std::string one =
      "workload.requests={list: [{prompt_tokens: 1000, output_tokens: 4}, "
      "{arrival_s: 3, prompt_tokens: 100, output_tokens: 2}]}";
  for (const double lease_s : {0.0, 0.6}) {
    BOOST_TEST_INFO_SCOPE(lease_s);
    // d fails while it posts, 63 blocks of six layers, keys and values: the KV has not been read.
    ServingBench run(tiny_serving(
        {one, three, "workload.router={policy: round_robin}", "workload.scheduler.prefix_caching=false",
         fmt::format("workload.kv_transfer={{descriptor_us: 100, merges_adjacent: false, lease_s: {}}}", lease_s),
         "events=[{at_us: 60000, instance: d, fail: true}]"}));
    std::vector<std::pair<Time, std::uint32_t>> held;
    struct Load : workload::EngineListener {
      explicit Load(std::vector<std::pair<Time, std::uint32_t>>& into) : held(into) {}
      void on_load(std::size_t id, const workload::EngineLoad& load, Time now) override {
        if (id == 0) held.emplace_back(now, load.blocks);
      }
      std::vector<std::pair<Time, std::uint32_t>>& held;
    } load(held);
    run.service().follow_engines(load);
    run.run();
    BOOST_TEST(run.served[0].restarts == 1u);
    check_parts(run);
    const auto held_at = [&](Time at) {
      std::uint32_t blocks = 0;
      for (const auto& [when, count] : held)
        if (when <= at) blocks = count;
      return blocks;
    };
    const std::uint32_t prompt_blocks = 63;
    BOOST_TEST(held_at(us(59000)) == prompt_blocks);
    BOOST_TEST(held_at(us(450000)) == (lease_s > 0 ? prompt_blocks : 0));
    BOOST_TEST(held_at(us(700000)) == 0u);
  }
}

BOOST_AUTO_TEST_CASE(kv_that_no_instance_asks_for_is_given_up) {
  // The only decode instance is not there yet when the prompt is complete, and joins after the lease, or before.
  const std::string pair =
      "workload.instances=[{name: p, role: prefill}, {name: d, role: decode, gpus: [4]}, {name: e, role: decode, gpus: "
      "[5]}]";
  for (const double lease_s : {0.2, 5.0}) {
    BOOST_TEST_INFO_SCOPE(lease_s);
    ServingBench run(
        tiny_serving({"workload.requests={list: [{prompt_tokens: 1000, output_tokens: 4}]}", pair,
                      fmt::format("workload.kv_transfer.lease_s={}", lease_s),
                      "events=[{at_us: 1000, instance: d, drain: true}, {at_us: 1000, instance: e, drain: true}, "
                      "{at_us: 1.0e+6, instance: e, join: host}]"}));
    run.run();
    const Stay& served = run.served[0];
    BOOST_TEST(served.restarts == (lease_s < 1 ? 1u : 0u));
    BOOST_TEST(served.lost_tokens == (lease_s < 1 ? 1000u : 0u));
    BOOST_TEST((served.times.first_token > us(1e6)));
    check_parts(run);
  }
}

BOOST_AUTO_TEST_CASE(requests_wait_for_an_instance_that_joins) {
  ServingBench run(tiny_serving({"workload.requests={list: [{prompt_tokens: 1024, output_tokens: 3}]}",
                                 "events=[{at_us: 4000, instance: a, join: host}]"}));
  run.run();
  const JobRow& load = run.records.named("WeightLoad_PP[0]_TP[0]_Inst[a]");
  BOOST_TEST((run.served[0].ttft[TtftPart::router] == load.end));
  check_parts(run);
}

BOOST_AUTO_TEST_CASE(a_run_without_instances_says_who_is_not_there) {
  ServingBench run(tiny_serving(
      {kLoad, kTwo, "events=[{at_us: 3000, instance: a, drain: true}, {at_us: 3500, instance: b, fail: true}]"}));
  run.simulation.run([](Time) { return true; });
  BOOST_TEST(!run.service().api_server().done());
  const std::vector<std::string> lines = run.service().blocked();
  BOOST_TEST_REQUIRE(lines.size() == 1u);
  BOOST_TEST(lines[0].find("requests wait; a is drained, b has failed") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(random_fleets_with_faults_lose_nothing_and_replay_as_simulated) {
  Random random(17, 0);
  const auto one_of = [&](const std::vector<std::string>& all) { return all[random.below(all.size())]; };
  std::uint64_t restarts = 0, looked = 0, moving = 0, lost = 0, failed_links = 0, replicated = 0;
  for (int trial = 0; trial < 40; ++trial) {
    const std::vector<std::string> names = random.below(3) == 0 ? std::vector<std::string>{"c0", "c1", "c2"}
                                                                : std::vector<std::string>{"p0", "p1", "d0", "d1"};
    const bool is_pair = names.size() == 4, has_replicas = random.below(is_pair ? 3 : 2) == 0;
    std::vector<std::string> sets{
        "workload.requests={count: 16, arrivals: " +
            one_of({"poisson, rate_per_s: 1000", "poisson, rate_per_s: 5000", "closed_loop, concurrency: 5"}) +
            ", prompt_tokens: {lognormal: {mean: 400, cv_ratio: 1}}, output_tokens: {lognormal: {mean: 20, cv_ratio: "
            "0.7}}}",
        "workload.engine=" + one_of({"vllm-0.19", "vllm-0.15", "sglang-0.5", "trtllm-1.0"}),
        "workload.host=" +
            one_of({"none", "{step_us: 40, async: true}", "{layer_us: 9, request_us: 200, async: false}"}),
        is_pair && has_replicas
            ? "workload.instances=[{name: p, role: prefill, dp: 2, count: 2}, {name: d, role: decode, dp: 2, count: 2}]"
        : is_pair
            ? "workload.instances=[{name: p, role: prefill, tp: 2, count: 2}, {name: d, role: decode, tp: 2, count: 2}]"
        : has_replicas ? "workload.instances=[{name: c, dp: 2, count: 3}]"
                       : "workload.instances=[{name: c, tp: 2, count: 3}]",
        "workload.scheduler.max_batched_tokens=" + one_of({"128", "512"}),
        "fabric.fidelity=" + one_of({"train", "fluid"})};
    if (is_pair) {
      sets.push_back(
          "workload.kv_transfer={mode: " + one_of({"pull", "pull", "push_per_layer", "push_per_chunk", "push_at_end"}) +
          ", connector: " + one_of({"none", "nixl"}) + ", staging: " + one_of({"none", "all"}) + "}");
      sets.push_back("workload.router={policy: round_robin" +
                     one_of({"", ", decode: link_aware", ", decider: uncached_tokens, decider_tokens: 200"}) + "}");
    }
    if (has_replicas) sets.push_back("model.config=" + kSource + "/tests/models/tiny_experts.json");
    replicated += has_replicas ? 1 : 0;
    const bool has_tier = random.below(3) == 0;
    if (has_tier) {  // prompts of groups, whose KV is in host memory, too
      sets.push_back(
          "workload.requests={count: 16, arrivals: poisson, rate_per_s: 2000, prompt_tokens: 300, output_tokens: 15, "
          "prefix: {groups: 2, users_per_group: 3, shared_tokens: 200}}");
      sets.push_back(random.below(2) == 0
                         ? "workload.kv_tiers={host: {bytes_per_server: 1.0e+8}}"
                         : "workload.kv_tiers={host: {bytes_per_server: 2.0e+7}, disk: {bytes_per_server: 1.0e+9, "
                           "gb_per_s: 5, latency_us: 80}}");
      if (random.below(2) == 0) sets.push_back("workload.kv_tiers.host.pool=server");
    }
    // Each instance fails or is drained, and joins again; one of them may not be there at first.
    std::string events;
    for (const std::string& name : names) {
      double at = 300 + 40.0 * static_cast<double>(random.below(60));
      const std::string from = one_of({"host", "host", name.substr(0, 1) + (name[1] == '0' ? "1" : "0")});
      const auto add = [&](const std::string& what) {
        events += fmt::format("{}{{at_us: {}, instance: {}, {}}}", events.empty() ? "" : ", ", at, name, what);
        at += 200 + 40.0 * static_cast<double>(random.below(60));
      };
      if (random.below(3) == 0) continue;
      if (random.below(6) == 0) add("join: host");
      add(random.below(3) == 0 ? "drain: true" : "fail: true");
      add("join: host");
      if (random.below(2) == 0) {
        add("fail: true");
        add("join: host");
      }
    }
    if (random.below(3) == 0)
      events += fmt::format("{}{{at_us: {}, gpu: gpus0.gpu1, slow_ratio: 0.6}}", events.empty() ? "" : ", ",
                            500 + 100 * random.below(20));
    // Links fail for good, below what cuts a GPU off: some of its NVLink planes, NICs or their cables.
    const bool is_spread = is_pair && random.below(2) == 0;
    if (is_spread) {
      sets.push_back("machine.groups.gpus.servers=2");
      sets.push_back("workload.instances.0.placement=spread");
      sets.push_back("workload.instances.1.placement=spread");
    }
    for (std::uint64_t left = random.below(5); left > 0; --left, ++failed_links)
      events += fmt::format("{}{{at_us: {}, link: gpus{}.{}, fail: true}}", events.empty() ? "" : ", ",
                            100 + 50 * random.below(100), is_spread ? random.below(2) : 0,
                            is_spread && random.below(2) == 0
                                ? fmt::format("nic{}.{}", random.below(4), one_of({"pcie", "network"}))
                                : fmt::format("gpu{}.nvlink{}", random.below(6), random.below(3)));
    sets.push_back("events=[" + events + "]");
    BOOST_TEST_INFO_SCOPE("trial " << trial << " " << fmt::format("{}", fmt::join(sets, "\n")));
    const Scenario scenario = tiny_serving(sets, "dgx_h100");
    std::vector<std::string> outcomes;
    for (const bool simulates : {false, true}) {
      ServingBench run(scenario, false);
      if (simulates) run.simulation.workload().executor().simulate_every_collective();
      KvWatch watch(run.service());
      run.run();
      check_parts(run);
      std::string text;
      for (const JobRow& r : run.records.all)
        text += fmt::format("{} {} {} {}\n", r.name(), r.start.fs(), r.end.fs(), r.bytes);
      for (const Stay& served : run.served) {
        for (const Time token : served.times.tokens) text += fmt::format("{} ", token.fs());
        text += fmt::format("{} {} {}\n", served.restarts, served.lost_tokens, served.repeated_tokens);
        BOOST_TEST_REQUIRE(served.repeated_tokens <= served.lost_tokens);
        restarts += served.restarts;
        lost += served.lost_tokens;
      }
      looked += watch.looked;
      moving += watch.moving;
      outcomes.push_back(std::move(text));
    }
    BOOST_TEST((outcomes[0] == outcomes[1]));
  }
  BOOST_TEST(restarts > 200u);
  BOOST_TEST(lost > 20'000u);
  BOOST_TEST(looked > 5000u);
  BOOST_TEST(moving > 100u);
  BOOST_TEST(failed_links > 50u);
  BOOST_TEST(replicated > 8u);
}
