// Runs workload.kind: collective: the nccl-tests table, collectives.csv and the metrics.
#pragma once

#include <limits>

#include "sc_main/kinds/workload_run.h"
#include "workload/bench/collective_bench.h"

namespace railyard {

class CollectiveRun : public WorkloadRun {
 public:
  using Spec = workload::collective_bench::CollectiveBenchSpec;

  /// @throws InputError: an algorithm that ranks or machine do not allow, or buffers that do not fit in memory
  CollectiveRun(const Scenario& scenario, platforms::Machine& machine, execution::Executor& executor);

  workload::collective_bench::CollectiveBench& test() { return *bench_; }

  void start() override { bench_->start(); }
  bool done() const override { return bench_->done(); }
  std::string progress() const override;
  double done_ratio() const override;
  std::uint64_t expected_jobs() const override;
  std::vector<RouteOfInterest> routes() override;
  /// Of a folded machine only. Without an estimate, auto has trains; with one as well.
  std::vector<transport::Traffic> traffic() override;
  double affordable_hops() const override { return std::numeric_limits<double>::infinity(); }
  FoldBound folded_bound() override;
  Value explain() override;
  std::string explain_text(const Value& numbers) const override;
  void add_setup(Value& setup) const override;
  static const Metrics<CollectiveRun>& declared_metrics();
  void add_metrics(Value& metrics) const override { railyard::add_metrics(metrics, declared_metrics(), *this); }
  std::string table() const override;
  void write_tables(const OutputDirectory& out) override;

 private:
  const Spec& spec() const { return scenario_.spec<Spec>(); }
  /// The output of nccl-tests for a size.
  struct Row {
    std::uint64_t count = 0;
    const char* type = "";
    const char* reduction = "";
    int root = -1;
    double time_s = 0, algbw_gb_per_s = 0, busbw_gb_per_s = 0;
  };
  Row row_of(const workload::collective_bench::SizeResult& result) const;
  double average_busbw_gb_per_s() const;
  /// This number of each row, by size.
  Value by_size(double Row::*number) const;
  /// Of a folded machine.
  std::uint32_t ranks_of_a_copy() const;
  /// The memory to which rank 0 sends if it sends to rank 1.
  transport::Window after_first() const;
  /// Refuses a test that cannot run.
  void check() const;

  std::vector<GpuId> gpus_;  ///< by rank that runs
  std::unique_ptr<workload::collective_bench::CollectiveBench> bench_;
};

}  // namespace railyard
