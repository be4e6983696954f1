// Runs workload.kind: layer: the table of a layer's kernels and collectives, layer.csv and the metrics.
#pragma once

#include "gpu/kernels/kernel_timer.h"
#include "sc_main/kinds/workload_run.h"
#include "workload/bench/layer.h"

namespace railyard {

class LayerRun : public WorkloadRun {
 public:
  using Spec = workload::layer::LayerSpec;
  static constexpr EnergyPer kEnergyPer = EnergyPer::run;

  /// @throws InputError: a layer that does not fit in memory, or a data type without a tensor rate
  LayerRun(const Scenario& scenario, platforms::Machine& machine, execution::Executor& executor);

  void start() override { layer_->start(); }
  bool done() const override { return layer_->done(); }
  std::string progress() const override;
  double done_ratio() const override;
  std::uint64_t expected_jobs() const override;
  std::vector<RouteOfInterest> routes() override;
  Value explain() override;
  std::string explain_text(const Value& numbers) const override;
  Value compute() override { return profile_use({&timer_}); }
  void add_setup(Value& setup) const override;
  static const Metrics<LayerRun>& declared_metrics();
  void add_metrics(Value& metrics) const override { railyard::add_metrics(metrics, declared_metrics(), *this); }
  std::string table() const override;
  void write_tables(const OutputDirectory& out) override;

 private:
  const Spec& spec() const { return scenario_.spec<Spec>(); }
  const platforms::GroupSpec& group() const { return scenario_.machine.groups.front(); }
  /// Memory of a rank for the layer: weights, in training also gradients in 32 bits, KV cache, working buffers.
  Bytes rank_bytes() const;
  void check() const;
  /// check() first. Training: at the clock of a step (gpu/kernels/step_clock.h).
  gpu::GpuDatasheet checked_gpu() const;
  /// Sums over the finished steps of the first rank.
  struct Totals {
    double kernels_s = 0, flops = 0, bytes = 0;
    double collectives_s = 0;  ///< without kernels beside them
    double layer_s() const { return kernels_s + collectives_s; }
  };
  Totals totals() const;
  /// All layers of the model, embedding and head. Training has no such time.
  std::optional<double> pass_s() const;
  double tokens_per_s(double pass_s) const;
  /// "llama-3.1-70b on dgx_h100: prefill of 1 x 2048 tokens after 0 on 8 x H100-SXM5-80GB"
  std::string title() const;

  std::vector<GpuId> gpus_;  ///< by rank
  gpu::KernelTimer kernels_;
  transformer::LayerTimer timer_;
  double ends_seconds_ = 0;  ///< time of embedding and head
  std::unique_ptr<workload::layer::Layer> layer_;
};

}  // namespace railyard
