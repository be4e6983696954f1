// Runs workload.kind: overlap: times of a product and a collective alone, in series and overlapped; overlap.csv.
#pragma once

#include "sc_main/kinds/workload_run.h"
#include "workload/bench/overlap_bench.h"

namespace railyard {

class OverlapRun : public WorkloadRun {
 public:
  using Spec = workload::overlap::OverlapSpec;

  OverlapRun(const Scenario& scenario, platforms::Machine& machine, execution::Executor& executor);

  void start() override { bench_->start(); }
  bool done() const override { return bench_->done(); }
  std::string progress() const override;
  double done_ratio() const override;
  std::uint64_t expected_jobs() const override;
  std::vector<RouteOfInterest> routes() override;
  Value explain() override;
  std::string explain_text(const Value& numbers) const override;
  void add_setup(Value& setup) const override;
  static const Metrics<OverlapRun>& declared_metrics();
  void add_metrics(Value& metrics) const override { railyard::add_metrics(metrics, declared_metrics(), *this); }
  std::string table() const override;
  void write_tables(const OutputDirectory& out) override;

 private:
  const Spec& spec() const { return scenario_.spec<Spec>(); }
  /// Kernel time of a method, as a multiple of the same kernels' time alone; none for a method without kernels.
  static std::optional<double> kernel_stretch(const workload::overlap::MethodResult& result);
  /// Hidden share of the shorter of the method's kernels and its traffic; none if it does not have both.
  static std::optional<double> hidden(const workload::overlap::MethodResult& result);

  std::vector<GpuId> gpus_;  ///< by rank
  std::unique_ptr<workload::overlap::OverlapBench> bench_;
};

}  // namespace railyard
