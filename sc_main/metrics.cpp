#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "sc_main/results.h"

namespace railyard {

namespace {

using Json = nlohmann::ordered_json;
using workload::prefill::RankTimes;
using workload::prefill::RequestTimes;

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double v : values) sum += v;
  return values.empty() ? 0 : sum / static_cast<double>(values.size());
}

/// Nearest rank: the smallest value that at least `ratio` of them do not exceed.
double percentile(std::vector<double> values, double ratio) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const auto rank = static_cast<std::size_t>(std::ceil(ratio * static_cast<double>(values.size())));
  return values[std::max<std::size_t>(rank, 1) - 1];
}

void add_percentiles(Json& metrics, const std::string& name, const std::vector<double>& values) {
  metrics[name + "_s"] = mean(values);
  metrics[name + "_p50_s"] = percentile(values, 0.50);
  metrics[name + "_p99_s"] = percentile(values, 0.99);
}

void add_request_metrics(Json& metrics, workload::prefill::System& system) {
  std::vector<double> ttft, tpot, decode_start, queueing, kv_exposed;
  for (const std::uint32_t r : system.finished_order()) {
    const RequestTimes& t = system.requests()[r];
    const Time arrival = system.spec().requests[r].arrival;
    ttft.push_back((t.first_token - arrival).seconds());
    decode_start.push_back((t.decode_begun - arrival).seconds());
    queueing.push_back((t.prefill_begun - arrival).seconds());
    kv_exposed.push_back((t.kv_landed - t.first_token).seconds());
    if (t.tokens.size() > 1) tpot.push_back((t.tokens.back() - t.first_token).seconds() / static_cast<double>(t.tokens.size() - 1));
  }
  metrics["requests"] = ttft.size();
  add_percentiles(metrics, "ttft", ttft);
  add_percentiles(metrics, "decode_start", decode_start);
  add_percentiles(metrics, "tpot", tpot);
  metrics["queueing_s"] = mean(queueing);
  metrics["exposed_s"]["kv"] = mean(kv_exposed);
}

void add_pipeline_metrics(Json& metrics, workload::prefill::System& system) {
  workload::prefill::Grid& grid = system.prefill_grid();
  const double window = system.prefill_window().seconds();
  RankTimes sum;
  Json utilisation = Json::object();
  for (std::uint32_t p = 0; p < grid.pp(); ++p) {
    double kernels = 0;
    for (std::uint32_t t = 0; t < grid.tp(); ++t) {
      const RankTimes& times = system.prefill().passes().times(p * grid.tp() + t);
      kernels += times.kernels_s;
      sum.tp_s += times.tp_s;
      sum.tp_sync_s += times.tp_sync_s;
      sum.pp_s += times.pp_s;
      sum.occupied_s += times.occupied_s;
    }
    utilisation[fmt::format("stage{}", p)] = window > 0 ? kernels / grid.tp() / window : 0.0;
  }
  const double ranks = grid.ranks();
  metrics["prefill_window_s"] = window;
  metrics["prefill_tokens_per_s"] = window > 0 ? static_cast<double>(system.prefill().tokens_done()) / window : 0.0;
  metrics["stage_utilisation"] = utilisation;
  metrics["bubble_fraction"] = window > 0 ? std::max(0.0, 1 - sum.occupied_s / ranks / window) : 0.0;
  metrics["exposed_s"]["tp"] = sum.tp_s / ranks;
  metrics["exposed_s"]["pp"] = sum.pp_s / ranks;
  metrics["exposed_s"]["tp_sync"] = sum.tp_sync_s / ranks;
}

void add_decode_metrics(Json& metrics, workload::prefill::System& system) {
  const workload::prefill::DecodeSide& decode = system.decode();
  Json d;
  d["steps"] = decode.steps();
  d["tokens"] = decode.tokens();
  d["step_s"] = decode.steps() > 0 ? decode.step_seconds() / decode.steps() : 0.0;
  d["batch"] = decode.steps() > 0 ? static_cast<double>(decode.tokens()) / decode.steps() : 0.0;
  d["tokens_per_s"] = decode.step_seconds() > 0 ? static_cast<double>(decode.tokens()) / decode.step_seconds() : 0.0;
  RankTimes sum;
  const std::uint32_t ranks = system.decode_grid().ranks();
  for (std::uint32_t r = 0; r < ranks; ++r) {
    sum.tp_s += decode.passes().times(r).tp_s;
    sum.tp_sync_s += decode.passes().times(r).tp_sync_s;
    sum.pp_s += decode.passes().times(r).pp_s;
  }
  d["exposed_s"] = {{"tp", sum.tp_s / ranks}, {"pp", sum.pp_s / ranks}, {"tp_sync", sum.tp_sync_s / ranks}};
  metrics["decode"] = d;
}

Json traffic(Simulation& simulation, const std::vector<LinkRow>& links) {
  Json rows = Json::array();
  for (std::size_t c = 0; c < kTrafficClasses; ++c) {
    const transport::ClassTotals& totals = simulation.fabric().ledger().totals(c);
    Json row;
    row["class"] = kTrafficClassNames[c];
    row["messages"] = totals.messages;
    row["bytes"] = totals.bytes;
    const double n = std::max<double>(1, static_cast<double>(totals.messages));
    row["mean_actual_s"] = totals.actual.seconds() / n;
    row["mean_uncontended_s"] = totals.uncontended.seconds() / n;
    double waited = 0, most = 0;
    const LinkRow* worst = nullptr;
    for (const LinkRow& link : links) {
      const double here = link.counters().waited[c].seconds();
      waited += here;
      if (here > most) {
        most = here;
        worst = &link;
      }
    }
    row["waited_s"] = waited;
    row["worst_link"] = worst == nullptr ? "" : worst->name;
    row["worst_link_direction"] = worst == nullptr ? "" : worst->direction;
    row["worst_link_waited_s"] = most;
    rows.push_back(row);
  }
  return rows;
}

Json memory(Simulation& simulation) {
  Json groups;
  for (const char* name : {"prefill", "decode"}) {
    const std::vector<GpuId>& ranks = name[0] == 'p' ? simulation.prefill_gpus() : simulation.decode_gpus();
    Json rows = Json::array();
    for (std::uint32_t r = 0; r < ranks.size(); ++r) {
      const gpu::Hbm& hbm = simulation.machine().gpu(ranks[r]).hbm();
      rows.push_back({{"rank", r}, {"gpu", simulation.machine().gpu(ranks[r]).name()}, {"peak_bytes", hbm.peak()}, {"capacity_bytes", hbm.capacity()}});
    }
    groups[name] = rows;
  }
  return groups;
}

}  // namespace

Json summary(Simulation& simulation, const SimulatorFigures& figures) {
  const Scenario& scenario = simulation.scenario();
  workload::prefill::System& system = simulation.system();
  const std::vector<LinkRow> links = link_table(simulation);
  Json s;
  s["schema_version"] = kSummarySchemaVersion;
  s["kind"] = "disaggregated_prefill";
  s["platform"] = scenario.platform;
  s["scenario"] = scenario.path;
  s["model"] = scenario.model.name;
  s["seed"] = scenario.seed;
  s["fidelity"] = "train";
  for (const platforms::GroupSpec& group : scenario.machine.groups) s["calibration"][group.gpu.name] = group.gpu.calibration;
  s["complete"] = system.done();
  Json& metrics = s["metrics"];
  metrics["end_s"] = simulation.end().seconds();
  add_request_metrics(metrics, system);
  add_pipeline_metrics(metrics, system);
  add_decode_metrics(metrics, system);
  s["traffic"] = traffic(simulation, links);
  s["memory"] = memory(simulation);
  const double end = std::max(1e-15, simulation.end().seconds());
  s["links"] = Json::array();
  for (const LinkRow& row : links) {
    const transport::PortCounters& c = row.counters();
    s["links"].push_back({{"name", row.name}, {"direction", row.direction}, {"bytes", c.payload_bytes}, {"wire_bytes", c.wire_bytes},
                          {"busy_s", row.busy(simulation.end()).seconds()}, {"utilisation", row.busy(simulation.end()).seconds() / end}, {"peak_queue_bytes", c.peak_queued_bytes}});
  }
  s["simulator"] = {{"wall_s", figures.wall_s},
                    {"transactions", simulation.fabric().hop_transactions()},
                    {"replayed_transactions", simulation.fabric().replayed_transactions()},
                    {"jobs", system.dispatcher().jobs()},
                    {"kernel_events", simulation.fabric().calendar().events()},
                    {"peak_rss_bytes", figures.peak_rss_bytes},
                    {"interrupted", figures.interrupted}};
  return s;
}

}  // namespace railyard
