// Whole training steps on a server: the parts of each rank's time add up to the femtosecond, memory peaks where the plan
// says, and one GPU takes the sum of its kernels.
#include "sc_main/kinds/training_run.h"
#include "tests/support/systemc_main.h"
#include "tests/support/training_bench.h"

using namespace railyard;
using namespace railyard::test;
using namespace railyard::workload;
using namespace railyard::workload::training;

namespace {

struct Trained : private FreshKernel {
  explicit Trained(const std::vector<std::string>& sets, const std::string& platform = "dgx_h100")
      : simulation(training_scenario(sets, platform), records) {
    simulation.fabric().watch_invariants();
    simulation.run([](Time) { return true; });
    BOOST_TEST_REQUIRE(step().done());
    BOOST_TEST(simulation.workload().executor().live() == 0u);
    BOOST_TEST(simulation.fabric().transactions_live() == 0u);
  }
  const TrainingRun& run() { return static_cast<TrainingRun&>(simulation.workload()); }
  const TrainingStep& step() { return run().step(); }
  std::uint32_t ranks() { return step().mesh().size(); }
  const gpu::Hbm& hbm(std::uint32_t rank) { return step().mesh().rank(rank).gpu->hbm(); }

  Records records;
  railyard::Simulation simulation;
};

std::vector<std::string> sets_of(std::vector<std::string> keys) {
  for (std::string& key : keys) key.insert(0, "workload.");
  return keys;
}

/// Mappings of eight ranks.
const std::vector<std::vector<std::string>>& mappings() {
  static const std::vector<std::vector<std::string>> all{
      {"tp=8", "sequence_parallel=true"},
      {"dp=8", "dp_overlap=true", "bucket_parameters=10000000"},
      {"dp=8", "zero_stage=0", "steps=2"},
      {"gtp.size=8", "steps=2"},
      {"gtp.size=4", "dp=2", "dp_overlap=true", "bucket_parameters=1000000", "recompute=full", "gtp.prefetch_depth=2",
       "steps=2"},
      {"tp=2", "gtp.size=2", "pp=2", "sequence_parallel=true", "schedule=zb_h1", "steps=2"},
      {"tp=2", "pp=2", "sequence_parallel=true", "steps=2", "dp_overlap=true", "bucket_parameters=1000000"},
      {"tp=2", "pp=2", "grad_norm=none", "recompute=selective", "attention=unfused"},
      {"tp=2", "pp=2", "schedule=interleaved", "virtual_stages=3", "pp_overlap=true", "recompute=full"},
      {"tp=2", "pp=2", "schedule=zbv", "virtual_stages=2", "sequence_parallel=true", "keep_gathered=true"},
      {"pp=4", "schedule=zb_h1"},
      {"pp=4", "schedule=zb_h2", "stage_layers=[2,2,1,1]"},
      {"pp=4", "schedule=zb_auto", "memory_limit_stages=1.5"},
      {"pp=2", "schedule=gpipe", "recompute={method: block, layers: 2}"},
      {"pp=4", "schedule=zb_h2", "grad_norm=post_validation", "steps=3"},
      {"pp=2", "schedule=naive", "rank_order=tp-pp-cp-ep-dp"},
      {"tp=4", "pp=2", "pp_send=full", "dropout=true"}};
  return all;
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_parts_of_each_ranks_time_add_up) {
  for (const auto& mapping : mappings()) {
    BOOST_TEST_CONTEXT(fmt::format("{}", fmt::join(mapping, " "))) {
      Trained t(sets_of(mapping));
      const TrainingSpec& spec = t.simulation.scenario().spec<TrainingSpec>();
      for (std::uint32_t r = 0; r < t.ranks(); ++r) {
        const RankAccount& account = t.step().account(r);
        BOOST_TEST(account.counted().seconds() == t.step().end().seconds());
        BOOST_TEST(account.kernels_s() > 0);
        BOOST_TEST(account.optimizer_s() > 0);
        BOOST_TEST((account.exposed_s(TrafficClass::tp) > 0) == (spec.tp() > 1));
        BOOST_TEST((account.transfers_s(TrafficClass::pp) > 0) == (spec.pp() > 1));
        BOOST_TEST((account.transfers_s(TrafficClass::dp) > 0) == (t.ranks() / spec.tp() > 1));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(memory_of_each_rank_peaks_where_the_plan_says) {
  for (const auto& mapping : mappings()) {
    BOOST_TEST_CONTEXT(fmt::format("{}", fmt::join(mapping, " "))) {
      Trained t(sets_of(mapping));
      for (std::uint32_t r = 0; r < t.ranks(); ++r) {
        const std::uint32_t p = t.step().mesh().coordinate(r, Dimension::pp);
        BOOST_TEST(t.hbm(r).peak() == t.run().memory_plan().peak(p).total());
        BOOST_TEST(t.hbm(r).used() == t.run().memory_plan().fixed(p) + t.run().memory_plan().peak(p).gathered);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(one_gpu_takes_the_sum_of_its_kernels) {
  for (const std::string platform : {"plx_box", "dgx_h100"}) {
    Trained t({"workload.dp=1", "workload.micro_batch=2", "workload.schedule=zb_h1"}, platform);
    const SlotPlans& plans = t.run().plans();
    double kernels_s = 0;
    for (const SlotKind kind : {SlotKind::forward, SlotKind::backward_inputs, SlotKind::backward_weights})
      kernels_s += 4 * plans.plan(kind, 0).kernels_s;
    const RankAccount& account = t.step().account(0);
    BOOST_TEST(account.kernels_s() == kernels_s, boost::test_tools::tolerance(1e-9));
    BOOST_TEST(account.kernels_s() + account.optimizer_s() == t.step().end().seconds(),
               boost::test_tools::tolerance(1e-12));
    BOOST_TEST(account.bubble_s() == 0);
    BOOST_TEST(account.host_s() == 0);
  }
}

// The pipeline ranks trade their GPUs; the server is symmetric. Ranks that send at the same instant may take turns in
// another order.
BOOST_AUTO_TEST_CASE(equal_placements_take_equal_times) {
  const std::vector<std::string> keys{"tp=2", "pp=2", "sequence_parallel=true"};
  Trained straight(sets_of(keys));
  std::vector<std::string> moved = keys;
  moved.push_back("placement=[4,5,6,7,0,1,2,3]");
  Trained swapped(sets_of(moved));
  BOOST_TEST(straight.step().end().seconds() == swapped.step().end().seconds(), boost::test_tools::tolerance(1e-4));
  for (std::uint32_t r = 0; r < straight.ranks(); ++r) {
    BOOST_TEST(straight.step().account(r).kernels_s() == swapped.step().account(r).kernels_s());
    BOOST_TEST(straight.step().account(r).bubble_s() == swapped.step().account(r).bubble_s(),
               boost::test_tools::tolerance(1e-3));
  }
}
