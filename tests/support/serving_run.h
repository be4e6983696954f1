// A run of workload.kind: serving under test, with all its requests and reported jobs, the iterations of its first
// instance, and the times of that instance's stages at the end of each iteration. run() checks at the end: every request
// has all its tokens, nothing is in flight, all KV blocks are free, and at every instant that was looked at, the times of
// each stage add up to the time of the run.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "tests/support/prefill_run.h"
#include "tests/support/scheduling.h"
#include "tests/support/service_of.h"

namespace railyard::test {

/// Six layers of hidden size 1024 on the GPUs of one server, without host time; one prompt of 1024 tokens by default.
inline Scenario tiny_serving(const std::vector<std::string>& sets = {}, const std::string& platform = "plx_box") {
  return Scratch().load("model: {config: " + kTinyModel +
                            "}\n"
                            "machine: {groups: {gpus: {servers: 1}}}\n"
                            "workload:\n"
                            "  kind: serving\n"
                            "  requests: {list: [{prompt_tokens: 1024, output_tokens: 1}]}\n"
                            "  instances: [{name: a}]\n"
                            "  scheduler: {max_seqs: 64}\n"
                            "  host: none\n",
                        sets, platform);
}

/// The same model, for closed forms; a prompt of 512 tokens fills a batch. Links have only a
/// rate and a latency, and memory and L2 are so fast that messages do not slow the kernels.
inline Scenario serving_scenario(const std::vector<std::string>& sets = {}) {
  Scenario scenario = Scratch().load("model: {config: " + kTinyModel +
                                         "}\n"
                                         "machine: {groups: {gpus: {servers: 1}}}\n"
                                         "workload:\n"
                                         "  kind: serving\n"
                                         "  requests: {prompt_tokens: 512, output_tokens: 1}\n"
                                         "  scheduler: {max_batched_tokens: 512, max_seqs: 64}\n"
                                         "  host: none\n",
                                     sets);
  idealise(scenario.machine);
  platforms::GroupSpec& group = scenario.machine.groups.front();
  group.gpu_pcie.latency_ns = 5000;
  group.gpu.hbm.gb_per_s = group.gpu.l2.bytes_per_sm_clock = 1e6;
  return scenario;
}

/// The instance on `pp` stages with this number of layers each, or as even as possible.
inline std::string stages_of(std::uint32_t pp, const std::string& layers = "") {
  return "workload.instances=[{name: a, role: colocated, pp: " + std::to_string(pp) +
         (layers.empty() ? "" : ", stage_layers: " + layers) + "}]";
}

class ServingBench : private FreshKernel, private workload::inference::ServiceSink {
 public:
  using StageTimes = workload::inference::StageTimes;
  using Uses = std::array<Time, StageTimes::kUses>;

  /// @param watches  invariants of the fabric, at every event: then no pass is composed
  explicit ServingBench(const Scenario& scenario, bool watches = true) : simulation(scenario, records) {
    if (watches) fabric().watch_invariants();
    service().add_sink(*this);
  }

  Records records;
  railyard::Simulation simulation;
  struct Step : workload::inference::Iteration {
    Time completed;
    std::vector<Uses> stages;  ///< their times until then
  };
  std::vector<Step> steps;
  std::vector<workload::inference::Stay> served;  ///< by number

  transport::Assembly& fabric() { return simulation.fabric(); }
  workload::inference::Service& service() { return service_of(simulation); }
  workload::inference::Grid& instance() { return service().instance(0).grid(); }

  void run() {
    simulation.run([](Time) { return true; });
    BOOST_TEST_REQUIRE(service().api_server().done());
    BOOST_TEST(simulation.workload().blocked().empty());
    BOOST_TEST(simulation.workload().executor().live() == 0u);
    BOOST_TEST(fabric().transactions_live() == 0u);
    BOOST_TEST(fabric().unreturned_credit() == 0u);
    BOOST_TEST(served.size() == service().api_server().count());
    for (std::size_t i = 0; i < service().instances(); ++i) {
      if (service().events_left() == 0)  // else a lease outlives the requests
        BOOST_TEST(service().instance(i).scheduler().memory().held() == 0u);
      BOOST_TEST(service().instance(i).scheduler().empty());
      look(i, fabric().now());
    }
  }

  /// What a stage did from the end of one step to the end of a later one.
  Time spent(std::size_t from, std::size_t to, std::uint32_t stage, StageTimes::Use use) const {
    return steps[to].stages[stage][use] - steps[from].stages[stage][use];
  }
  Time between(std::size_t from, std::size_t to) const { return steps[to].completed - steps[from].completed; }

  /// Kernels of a stage in an iteration, from the first one's begin to the last one's end. @pre tp 1
  Time stage_time(std::uint32_t iteration, std::uint32_t stage) const {
    const JobRow& row = records.named("It[" + std::to_string(iteration) + "]_PP[" + std::to_string(stage) + "]_TP[0]");
    return row.end - row.start;
  }
  /// Activations of an iteration from a stage to the next one. @pre tp 1
  const JobRow& hop(std::uint32_t iteration, std::uint32_t stage) const {
    return records.named("PP_Act_FromP[" + std::to_string(stage) + "]_ToP[" + std::to_string(stage + 1) +
                         "]_TP[0]_It[" + std::to_string(iteration) + "]");
  }
  Time hop_time(std::uint32_t iteration, std::uint32_t stage) const {
    return hop(iteration, stage).end - hop(iteration, stage).start;
  }
  /// The time of a pass on one GPU, from the times of its kernels.
  Time pass_time(const workload::inference::ScheduledBatch& batch, std::uint64_t padded_tokens = 0) {
    const workload::inference::Pass pass = plan_pass(instance(), batch, workload::Host(), padded_tokens);
    Time time = Time::seconds(pass.embedding->seconds);
    for (std::uint32_t l = 0; l < instance().model().layers; ++l)
      for (const auto& step : pass.layers[instance().model().kind(l)]) time += Time::seconds(step.kernels->seconds);
    if (pass.head) time += Time::seconds(pass.head->seconds);
    return time;
  }

 private:
  std::vector<Uses> look(std::size_t place, Time now) {
    const StageTimes& times = service().instance(place).engine().stages();
    std::vector<Uses> all(times.stages());
    for (std::uint32_t p = 0; p < times.stages(); ++p) {
      Time sum;
      for (std::size_t use = 0; use < StageTimes::kUses; ++use)
        sum += all[p][use] = times.time(p, static_cast<StageTimes::Use>(use));
      BOOST_TEST_REQUIRE((sum == now), "stage " << p << " does not add up");
    }
    return all;
  }
  void on_served(std::uint32_t request, const workload::inference::Stay& done) override {
    if (served.size() <= request) served.resize(request + 1);
    BOOST_TEST_REQUIRE(done.times.tokens.size() == done.request.output_tokens);
    served[request] = done;
  }
  void on_iteration(std::size_t place, std::uint32_t number, const workload::inference::Iteration& iteration,
                    Time completed) override {
    if (place > 0) return;
    BOOST_TEST_REQUIRE(number == steps.size());
    steps.push_back({iteration, completed, look(0, completed)});
  }
};

}  // namespace railyard::test
