// Runs workload.kind: trace: nodes and waiting times of each rank; ranks.csv.
#pragma once

#include "sc_main/kinds/workload_run.h"
#include "workload/execution_trace/player.h"

namespace railyard {

class TraceRun : public WorkloadRun {
 public:
  using Spec = workload::execution_trace::TraceSpec;

  TraceRun(const Scenario& scenario, platforms::Machine& machine, execution::Executor& executor);

  void start() override { player_->start(); }
  bool done() const override { return player_->done(); }
  std::string progress() const override;
  double done_ratio() const override;
  std::uint64_t expected_jobs() const override { return spec().order->emissions.size(); }
  std::vector<TrafficClass> classes() const override;
  std::vector<RouteOfInterest> routes() override;
  std::vector<RankSets> rank_sets() override;
  Value explain() override;
  std::string explain_text(const Value& numbers) const override;
  void add_setup(Value& setup) const override;
  static const Metrics<TraceRun>& declared_metrics();
  void add_metrics(Value& metrics) const override { railyard::add_metrics(metrics, declared_metrics(), *this); }
  std::string table() const override;
  void write_tables(const OutputDirectory& out) override;

 private:
  const Spec& spec() const { return scenario_.spec<Spec>(); }
  const workload::execution_trace::Trace& trace() const { return *spec().trace; }
  std::uint64_t nodes() const;
  struct Traffic {
    std::uint64_t count = 0, bytes = 0;
  };
  /// Collectives by operation, sends, loads and stores.
  std::map<std::string, Traffic> traffic_kinds() const;
  Value traffic_by_kind(std::uint64_t Traffic::*member) const;
  double mean_s(Time workload::execution_trace::RankResult::*member) const;
  /// "52 nodes of 4 ranks on dgx_h100 (8 x H100-SXM5-80GB)"
  std::string title() const;

  std::vector<GpuId> gpus_;  ///< by rank
  std::unique_ptr<workload::execution_trace::TracePlayer> player_;
};

}  // namespace railyard
