// Runs workload.kind: p2p: the tables of p2pBandwidthLatencyTest and perftest, p2p.csv and the metrics.
#pragma once

#include "sc_main/kinds/workload_run.h"
#include "workload/bench/point_to_point.h"

namespace railyard {

class PointToPointRun : public WorkloadRun {
 public:
  using Spec = workload::p2p::PointToPointSpec;

  PointToPointRun(const Scenario& scenario, platforms::Machine& machine, execution::Executor& executor);

  workload::p2p::PointToPoint& test() { return *bench_; }

  void start() override { bench_->start(); }
  bool done() const override { return bench_->done(); }
  std::string progress() const override;
  double done_ratio() const override;
  std::uint64_t expected_jobs() const override;
  std::vector<RouteOfInterest> routes() override;
  Value explain() override;
  std::string explain_text(const Value& numbers) const override;
  void add_setup(Value& setup) const override;
  static const Metrics<PointToPointRun>& declared_metrics();
  void add_metrics(Value& metrics) const override { railyard::add_metrics(metrics, declared_metrics(), *this); }
  std::string table() const override;
  void write_tables(const OutputDirectory& out) override;

 private:
  using Measure = workload::p2p::Measure;
  const Spec& spec() const { return scenario_.spec<Spec>(); }
  const char* name_of_test() const;
  /// The memory of an RDMA test at either end.
  transport::Window memory_of_end(std::size_t place) const;
  std::string matrix_text(Measure measure, const char* title) const;
  std::string host_text() const;
  std::string sweep_text() const;
  bool sweeps() const { return workload::p2p::is_rdma(spec().test); }
  /// Mean over finished pairs of different memories, or finished GPUs; nothing if there is none.
  Value mean(Measure measure) const;
  /// The result of each finished size; nothing if the run is another test.
  Value by_size(workload::p2p::Test test) const;
  /// The result of a point, in the unit of its column.
  static double value(const workload::p2p::Point& point);

  std::vector<GpuId> gpus_;
  std::vector<transport::Window> hosts_;  ///< host memory of each GPU
  std::unique_ptr<workload::p2p::PointToPoint> bench_;
};

}  // namespace railyard
