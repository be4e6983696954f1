// Runs workload.kind: kernel: the table of kernels, kernels.csv and the metrics.
#pragma once

#include "sc_main/kinds/kernel_arithmetic.h"
#include "sc_main/kinds/workload_run.h"
#include "workload/bench/kernel_bench.h"

namespace railyard {

class KernelRun : public WorkloadRun {
 public:
  using Spec = workload::kernel_bench::KernelBenchSpec;
  static constexpr EnergyPer kEnergyPer = EnergyPer::run;

  /// @throws InputError: kernels that exceed the longest possible run
  KernelRun(const Scenario& scenario, platforms::Machine& machine, execution::Executor& executor);

  void start() override { bench_->start(); }
  bool done() const override { return bench_->done(); }
  std::string progress() const override;
  double done_ratio() const override;
  std::uint64_t expected_jobs() const override;
  std::vector<RouteOfInterest> routes() override { return {}; }
  Value explain() override;
  std::string explain_text(const Value& numbers) const override;
  void add_setup(Value& setup) const override;
  static const Metrics<KernelRun>& declared_metrics();
  void add_metrics(Value& metrics) const override { railyard::add_metrics(metrics, declared_metrics(), *this); }
  std::string table() const override;
  Value memory() const override { return Value::empty_group(); }
  void write_tables(const OutputDirectory& out) override;

 private:
  const Spec& spec() const { return scenario_.spec<Spec>(); }
  void check() const;
  /// Sums over the finished kernels of a group.
  struct Totals {
    double seconds = 0, flops = 0, bytes = 0;
    std::array<std::uint64_t, gpu::kKernelLimitNames.size()> limited_by{};
    double tflops() const;
    double gb_per_s() const;
  };
  Totals totals(std::uint32_t group) const;
  /// This value of each group, by name.
  Value by_group(Value (*value)(const Totals& totals)) const;
  const gpu::GpuDatasheet& datasheet(std::size_t group) const { return scenario_.machine.groups[group].gpu; }

  std::vector<GpuId> gpus_;  ///< the first GPU of each group
  std::unique_ptr<workload::kernel_bench::KernelBench> bench_;
};

/// "4096 x 4096 x 4096", "32/8 heads of 128, 4 x 2048 tokens after 0": a kernel's shape in the table.
std::string shape_text(const gpu::KernelSpec& kernel);

}  // namespace railyard
