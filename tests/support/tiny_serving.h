// A scenario of workload.kind: serving under test: six layers of hidden size 1024 on one server, run to its end, with all
// jobs, requests and iterations.
#pragma once

#include "sc_main/kinds/serving_run.h"
#include "tests/support/prefill_run.h"

namespace railyard::test {

inline Scenario tiny_serving(const std::vector<std::string>& sets = {}, const std::string& platform = "plx_box") {
  return Scratch().load("model: {config: " + kTinyModel +
                            "}\n"
                            "machine: {groups: {gpus: {servers: 1}}}\n"
                            "workload:\n"
                            "  kind: serving\n"
                            "  requests: {list: [{prompt_tokens: 1024, output_tokens: 1}]}\n"
                            "  instances: [{name: a}]\n"
                            "  scheduler: {max_seqs: 64}\n"
                            "  host: {preset: none}\n",
                        sets, platform);
}

class ServingRunUnderTest : private FreshKernel, private workload::inference::ServiceSink {
 public:
  using Served = workload::inference::Served;
  using Iteration = workload::inference::Iteration;

  explicit ServingRunUnderTest(const Scenario& scenario) : simulation(scenario, records) {
    simulation.fabric().watch_invariants();
    service().add_sink(*this);
  }

  Records records;
  railyard::Simulation simulation;
  std::map<std::uint32_t, Served> served;
  std::vector<std::pair<Iteration, Time>> iterations;  ///< with their completion

  workload::inference::Service& service() { return static_cast<ServingRun&>(simulation.workload()).service(); }
  void run() {
    simulation.run([](Time) { return true; });
    BOOST_TEST_REQUIRE(service().api_server().done());
  }

 private:
  void on_served(std::uint32_t request, const Served& of) override { served[request] = of; }
  void on_iteration(std::size_t, std::uint32_t, const Iteration& iteration, Time completed) override {
    iterations.emplace_back(iteration, completed);
  }
};

}  // namespace railyard::test
