// The pipeline of stages against its closed form, and what must and must not overlap in it.
#include "tests/support/kernel_of.h"
#include "tests/support/prefill_run.h"
#include "tests/support/systemc_main.h"

#include "sc_main/results.h"

using namespace railyard;
using namespace railyard::test;
using namespace railyard::transformer;
using namespace railyard::workload;
using namespace railyard::workload::inference;

namespace {

/// Pipeline of equal chunks through p stages of one GPU each, on a real machine.
struct Stages : FreshKernel, PassClient {
  static constexpr std::uint32_t kLayers = 6;

  Stages(std::uint32_t stages, const std::vector<std::string>& sets = {})
      : scenario(tiny_scenario(with_stages(stages, sets))),
        fabric(transport::VcPlan(), scenario.fabric.transaction_bytes),
        machine(scenario.machine, fabric),
        executor(fabric, records),
        grid("prefill", "", scenario.model, scenario.spec<workload::inference::ServingSpec>().instances[0].mapping,
             scenario.spec<workload::inference::ServingSpec>().instances[0].host,
             scenario.spec<workload::inference::ServingSpec>().instances[0].engine, gpus(stages), executor),
        passes(grid, executor, PassNames::prefill, StageHop{PpSend::full}, *this, without_kernels()) {}

  static Pass without_kernels() {
    Pass pass;
    pass.layers.resize(1);
    return pass;
  }

  /// m chunks of `tokens` that hold every stage for `stage_time`. @return from the first job's begin to the last one's
  /// end
  Time run(std::uint32_t chunks, std::uint64_t tokens, Time stage_time) {
    Pass pass;
    pass.tokens = tokens;
    const std::uint64_t per_stage = kLayers / grid.pp();
    const Time attention = Time::fs(stage_time.fs() / per_stage / 4);
    const gpu::SharedChain mlp = kernel_of(Time::fs(stage_time.fs() / per_stage) - attention, 1);
    pass.layers = {{{LayerPart::attention, kernel_of(attention, 1)}, {LayerPart::mlp, mlp}}};
    for (pass.index = 0; pass.index < chunks; ++pass.index) passes.emit(pass);
    sc_core::sc_start();
    BOOST_TEST(executor.live() == 0u);
    BOOST_TEST(fabric.transactions_live() == 0u);
    BOOST_TEST(fabric.unreturned_credit() == 0u);
    BOOST_TEST((passes.first_begun() == Time()));
    return passes.last_done() - passes.first_begun();
  }
  /// From a stage to the next one, alone.
  Time transfer(std::uint64_t tokens, std::uint32_t from = 0) {
    return fabric.uncontended(grid.rank(from).gpu->window(), grid.rank(from + 1).gpu->window(),
                              number(TrafficClass::pp), hidden_bytes(grid.model(), tokens),
                              transport::Engine::copy_engine);
  }
  const JobRow& named(const std::string& name) const { return records.named(name); }

  Scenario scenario;
  transport::Assembly fabric;
  platforms::Machine machine;
  Records records;
  Executor executor;
  Grid grid;
  Pipeline passes;

 private:
  static std::vector<std::string> with_stages(std::uint32_t stages, std::vector<std::string> sets) {
    sets.push_back("workload.prefill.pp=" + std::to_string(stages));
    sets.push_back("workload.decode.pp=1");
    return sets;
  }
  std::vector<gpu::Gpu*> gpus(std::uint32_t count) {
    std::vector<gpu::Gpu*> result;
    for (std::uint32_t g = 0; g < count; ++g) result.push_back(&machine.gpu(GpuId(g)));
    return result;
  }
  void on_pass_begun(std::uint32_t) override {}
  void on_attention_emitted(std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t, JobRef) override {}
  void on_stage_emitted(std::uint32_t, std::uint32_t, std::uint32_t, JobRef) override {}
  void on_pass_done(std::uint32_t) override {}
};

}  // namespace

BOOST_AUTO_TEST_CASE(equal_stages_and_chunks_take_m_plus_p_minus_1_times) {
  constexpr std::uint64_t kTokens = 256;
  const Time t = Time::us(600);
  for (const std::uint32_t p : {1u, 2u, 3u, 6u}) {
    for (const std::uint32_t m : {1u, 2u, 5u, 16u}) {
      Stages pipeline(p);
      Time transfers;  // (p-1) x where every stage sits below one switch; the one between the switches takes longer
      for (std::uint32_t from = 0; from + 1 < p; ++from) {
        BOOST_TEST_REQUIRE((pipeline.transfer(kTokens, from) <= t));
        transfers += pipeline.transfer(kTokens, from);
      }
      if (p > 1 && p <= 4) BOOST_TEST((transfers == pipeline.transfer(kTokens) * (p - 1)));
      const Time took = pipeline.run(m, kTokens, t);
      BOOST_TEST(took.fs() == (t * (m + p - 1) + transfers).fs(), "m = " << m << ", p = " << p);
      double occupied = 0;
      for (std::uint32_t r = 0; r < p; ++r) occupied += pipeline.passes.times(r).occupied_s;
      const double idle = 1 - occupied / p / took.seconds();
      BOOST_TEST(std::abs(idle - ((p - 1) * t.seconds() + transfers.seconds()) / took.seconds()) < 1e-9);
    }
  }
}

BOOST_AUTO_TEST_CASE(the_bubble_fraction_reaches_its_limit_as_transfers_vanish) {
  for (const std::uint32_t p : {2u, 3u, 6u}) {
    for (const std::uint32_t m : {1u, 4u, 12u}) {
      Stages pipeline(p);
      const Time took = pipeline.run(m, 1, Time::ms(600));  // 2 KB under 600 ms: x is 2e-6 of t
      double occupied = 0;
      for (std::uint32_t r = 0; r < p; ++r) occupied += pipeline.passes.times(r).occupied_s;
      BOOST_TEST(1 - occupied / p / took.seconds() == static_cast<double>(p - 1) / (m + p - 1),
                 boost::test_tools::tolerance(1e-4));
    }
  }
}

BOOST_AUTO_TEST_CASE(the_next_stage_waits_for_the_activations_and_chunks_overlap) {
  constexpr std::uint64_t kTokens = 1024;
  const Time t = Time::us(600);
  Stages pipeline(2);
  const Time x = pipeline.transfer(kTokens);
  BOOST_TEST((x > Time::us(50)));  // 2 MiB over PCIe
  pipeline.run(3, kTokens, t);
  const JobRow& send = pipeline.named("PP_Act_FromP[0]_ToP[1]_TP[0]_Chunk[0]");
  BOOST_TEST((send.start == t));
  BOOST_TEST((send.end == t + x));
  BOOST_TEST(send.bytes == kTokens * 1024 * 2);
  BOOST_TEST((pipeline.named("P_Rank_PP[1]_TP[0]_Chunk[0]").start == t + x));
  for (std::uint32_t c = 0; c < 3; ++c) {
    const std::string chunk = "_TP[0]_Chunk[" + std::to_string(c) + "]";
    BOOST_TEST((pipeline.named("P_Rank_PP[0]" + chunk).start == t * c));  // stage 0 goes on at once
    BOOST_TEST((pipeline.named("P_Rank_PP[1]" + chunk).start == t * (c + 1) + x));
  }
  // Waiting for what was not yet computed is the bubble's; waiting for bytes under way is exposed.
  BOOST_TEST(pipeline.passes.times(1).pp_s == x.seconds(), boost::test_tools::tolerance(1e-9));
  BOOST_TEST(pipeline.passes.times(0).pp_s == 0);
  BOOST_TEST(pipeline.passes.times(1).kernels_s == 3 * t.seconds(), boost::test_tools::tolerance(1e-9));
}

BOOST_AUTO_TEST_CASE(transfers_longer_than_a_stage_set_the_pace) {
  // Activations of a chunk need 3.5 times as long on the link as a stage computes; then they follow each other on it.
  constexpr std::uint64_t kTokens = 4096;
  const Time t = Time::us(84);
  constexpr std::uint32_t kChunks = 12;
  Stages pipeline(2);
  const Time x = pipeline.transfer(kTokens);
  BOOST_TEST_REQUIRE((x > t * 2));
  const double took = pipeline.run(kChunks, kTokens, t).seconds();
  BOOST_TEST(took == 2 * t.seconds() + kChunks * x.seconds(), boost::test_tools::tolerance(0.01));
}

BOOST_AUTO_TEST_CASE(an_uneven_stage_sets_the_pace) {
  // 6 layers as 4 and 2: the long stage is never idle.
  Stages pipeline(2, {"workload.prefill.stage_layers=[4,2]"});
  const Time t = Time::us(300);  // of three layers
  constexpr std::uint32_t kChunks = 8;
  const Time took = pipeline.run(kChunks, 16, t);
  BOOST_TEST(took.fs() == (Time::us(400) * kChunks + pipeline.transfer(16) + Time::us(200)).fs());
}

BOOST_AUTO_TEST_CASE(the_reported_bubble_is_that_of_the_pipeline) {
  // Equal chunks in a whole run: requests of one chunk each, all there at time zero.
  for (const std::uint32_t p : {1u, 2u, 3u}) {
    Scenario scenario =
        tiny_scenario({"workload.prefill.pp=" + std::to_string(p), "workload.requests={count: 6, prompt_tokens: 4096}",
                       "workload.chunk_tokens=4096"});
    idealise(scenario.machine);
    scenario.machine.gpu_pcie.gb_per_s = 1e5;
    for (platforms::GroupSpec& group : scenario.machine.groups) group.gpu_pcie.gb_per_s = 1e5;
    PrefillRun run(scenario);
    run.run();
    const auto metrics = summary(run.simulation, {})["metrics"];
    BOOST_TEST(metrics["bubble_fraction"].real() == (p - 1) / (6.0 + p - 1), boost::test_tools::tolerance(0.03));
    BOOST_TEST(metrics["prefill_capacity_tokens_per_s"].real() == 6 * 4096 / metrics["prefill_window_s"].real(),
               boost::test_tools::tolerance(1e-9));
    for (const auto& [stage, share] : metrics["stage_utilisation"].members())
      BOOST_TEST(share.real() == 6.0 / (6 + p - 1), boost::test_tools::tolerance(0.03));
  }
}
