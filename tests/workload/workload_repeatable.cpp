// The same scenario gives the same result: exactly, when nothing changes; but for a tie, when ties are drawn by lot;
// and ever closer to one value as transactions shrink.
#include "tests/support/prefill_run.h"
#include "tests/support/systemc_main.h"

using namespace railyard;
using namespace railyard::test;

namespace {

Scenario busy_scenario(const std::string& platform, const std::vector<std::string>& more = {}) {
  std::vector<std::string> sets{"workload.requests={count: 4, prompt_tokens: 1024, output_tokens: 4}",
                                "workload.handoff=per_layer", "workload.prefill={tp: 4, pp: 2}",
                                "workload.decode={tp: 2, pp: 3, steps: trace, max_batch: 2}"};
  sets.insert(sets.end(), more.begin(), more.end());
  return tiny_scenario(sets, platform);
}

std::string everything(PrefillRun& run) {
  std::string text;
  for (const JobRow& r : run.records.all)
    text += r.name() + " " + std::to_string(r.start.fs()) + " " + std::to_string(r.end.fs()) + " " +
            std::to_string(r.queued.fs()) + " " + std::to_string(r.bytes) + "\n";
  for (const transport::Device* device : run.fabric().devices())
    for (std::uint32_t p = 0; p < device->ports(); ++p) {
      const transport::PortCounters& c = device->port(PortId(p)).counters;
      text += std::string(device->name()) + " " + std::to_string(c.transactions) + " " + std::to_string(c.wire_bytes) +
              " " + std::to_string(c.busy.fs()) + " " + std::to_string(c.peak_queued_bytes) + "\n";
    }
  return text;
}

double mean_first_token(PrefillRun& run) {
  double sum = 0;
  const std::uint32_t requests = run.service().api_server().count();
  for (std::uint32_t r = 0; r < requests; ++r) sum += run.request(r).times.first_token.seconds();
  return sum / requests;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_run_repeats_to_the_femtosecond) {
  for (const std::string platform : {"plx_box", "dgx_h100"}) {
    PrefillRun first(busy_scenario(platform));
    first.run();
    const std::string before = everything(first);
    BOOST_TEST(before.size() > 10'000u);
    PrefillRun second(busy_scenario(platform));
    second.run();
    BOOST_TEST((everything(second) == before));
  }
}

BOOST_AUTO_TEST_CASE(replayed_collectives_leave_what_simulated_ones_do) {
  // Tensor parallelism alone on its NVLinks: one stage, or stages on servers of their own.
  const std::vector<std::vector<std::string>> mappings{
      {"workload.prefill={tp: 8, pp: 1}", "workload.decode={tp: 8, pp: 1, steps: trace, max_batch: 2}"},
      {"workload.prefill={tp: 8, pp: 2}", "workload.decode={tp: 4, pp: 1, steps: trace, max_batch: 2}",
       "machine.groups.prefill.servers=2"}};
  for (const std::vector<std::string>& mapping : mappings) {
    PrefillRun replayed(busy_scenario("dgx_h100", mapping));
    replayed.run();
    BOOST_TEST(replayed.fabric().replayed_transactions() > 0u);
    PrefillRun simulated(busy_scenario("dgx_h100", mapping));
    simulated.simulation.workload().executor().simulate_every_collective();
    simulated.run();
    BOOST_TEST(simulated.fabric().replayed_transactions() == 0u);
    BOOST_TEST((everything(simulated) == everything(replayed)));
    for (std::size_t c = 0; c < kTrafficClasses.size(); ++c) {
      BOOST_TEST(simulated.fabric().ledger().totals(c).messages == replayed.fabric().ledger().totals(c).messages);
      BOOST_TEST(simulated.fabric().ledger().totals(c).actual.seconds() ==
                 replayed.fabric().ledger().totals(c).actual.seconds());
    }
  }
}

BOOST_AUTO_TEST_CASE(ties_drawn_by_lot_move_the_mean_by_less_than_a_thousandth) {
  for (const std::string platform : {"plx_box", "dgx_h100"}) {
    PrefillRun plain(busy_scenario(platform));
    plain.run();
    const double expected = mean_first_token(plain);
    bool moved = false;
    for (const std::uint64_t seed : {1, 2, 3}) {
      PrefillRun run(busy_scenario(platform));
      run.fabric().calendar().shuffle_ties(seed);
      run.run();
      BOOST_TEST(mean_first_token(run) == expected, boost::test_tools::tolerance(1e-3));
      moved = moved || everything(run) != everything(plain);
    }
    BOOST_TEST(moved);  // the lot was drawn
  }
}

BOOST_AUTO_TEST_CASE(results_converge_as_transactions_shrink) {
  // Llama-3.1-8B's widths on six layers: messages of up to 2 MiB cut into 32, 8, 2 KiB and 512 B.
  std::vector<double> ttft, tp, kv;
  for (const std::uint32_t bytes : {32'768, 8192, 2048, 512}) {
    Scenario scenario = tiny_scenario({"workload.requests={prompt_tokens: 512}", "workload.prefill={tp: 4, pp: 2}",
                                       "workload.decode={tp: 4, pp: 2, steps: 1}", "workload.handoff=at_end",
                                       "fabric.transaction_bytes=" + std::to_string(bytes)});
    scenario.model.hidden = 4096;
    scenario.model.heads = 32;
    scenario.model.kv_heads = 8;
    scenario.model.ffn = 14336;
    // Of the fabric: what messages take of HBM shifts ranks against each other, and with them who meets whom on a link.
    for (platforms::GroupSpec& group : scenario.machine.groups) group.gpu.hbm.gb_per_s *= 1e4;
    PrefillRun run(scenario);
    run.run();
    ttft.push_back(mean_first_token(run));
    const auto mean = [&](TrafficClass c) {
      const transport::ClassTotals& totals = run.fabric().ledger().totals(number(c));
      return totals.actual.seconds() / static_cast<double>(totals.messages);
    };
    tp.push_back(mean(TrafficClass::tp));
    kv.push_back(mean(TrafficClass::kv));
  }
  for (const std::vector<double>& curve : {ttft, tp, kv}) {
    // First order: where the last two runs lead is the limit, and each quarter of the size is closer to it.
    const double limit = curve[3] + (curve[3] - curve[2]) / 3;
    for (std::size_t i = 1; i < curve.size(); ++i) {
      BOOST_TEST((curve[i] - limit) * (curve[i - 1] - limit) > 0);  // from one side
      BOOST_TEST(std::abs(curve[i] - limit) < std::abs(curve[i - 1] - limit) / 1.5);
    }
    BOOST_TEST(std::abs(curve[3] - limit) / limit < 0.002);
    BOOST_TEST(std::abs(curve[3] - curve[0]) / curve[3] < 0.05);
  }
}

BOOST_AUTO_TEST_CASE(messages_of_a_class_that_the_kind_does_not_list_end_the_run) {
  PrefillRun run(tiny_scenario());
  run.fabric().replay(number(TrafficClass::dp), {1, 4096, {}, {}}, 0);
  BOOST_CHECK_EXCEPTION(run.run(), std::logic_error, [](const std::logic_error& e) {
    return std::string(e.what()) == "disaggregated_prefill: messages of class dp, which the kind does not list";
  });
}
