// Runs workload.kind: training: the table of a step, ranks.csv, schedule.csv, schedule.txt and the
// metrics.
#pragma once

#include <functional>

#include "gpu/kernels/kernel_timer.h"
#include "gpu/kernels/step_clock.h"
#include "sc_main/kinds/training_gtp.h"
#include "sc_main/kinds/training_memory.h"
#include "sc_main/kinds/workload_run.h"
#include "workload/training/run/training_step.h"
#include "workload/training/schedule/times.h"

namespace railyard {

class TrainingRun : public WorkloadRun {
 public:
  using Spec = workload::training::TrainingSpec;
  static constexpr EnergyPer kEnergyPer = EnergyPer::step;

  /// @throws InputError: a data type without a tensor rate; a schedule or a slot too long for the labels of jobs
  TrainingRun(const Scenario& scenario, platforms::Machine& machine, execution::Executor& executor);

  /// @throws InputError: a rank does not fit in memory
  void check_fits() const override;
  Bytes usable_bytes(const gpu::Gpu& gpu) const override {
    return static_cast<Bytes>(gpu.datasheet().hbm.visible_bytes());
  }
  void start() override { step_->start(); }
  bool done() const override { return step_->done(); }
  std::string progress() const override;
  double done_ratio() const override { return done_of(step_->slots_done(), step_->slots()); }
  std::uint64_t expected_jobs() const override { return step_->expected_jobs(); }
  std::vector<TrafficClass> classes() const override;
  std::vector<RouteOfInterest> routes() override;
  std::vector<RankSets> rank_sets() override;
  std::vector<transport::Traffic> traffic() override { return step_->traffic(); }
  /// A few seconds of processor time: steps are compared by the hundred.
  double affordable_hops() const override { return 2e7; }
  Value explain() override;
  std::string explain_text(const Value& numbers) const override;
  void add_setup(Value& setup) const override;
  static const Metrics<TrainingRun>& declared_metrics();
  void add_metrics(Value& metrics) const override { railyard::add_metrics(metrics, declared_metrics(), *this); }
  WorkDone work_done() const override;
  std::string table() const override;
  void open_tables(const OutputDirectory& out) override;
  void write_tables(const OutputDirectory& out) override;

  const workload::training::TrainingStep& step() const { return *step_; }
  const workload::training::SlotPlans& plans() const { return *plans_; }
  const workload::training::MemoryPlan& memory_plan() const { return *memory_; }

 private:
  const Spec& spec() const { return scenario_.spec<Spec>(); }
  /// By group of the machine.
  std::vector<gpu::KernelTimer> step_kernels(const gpu::LayerTraffic& traffic) const;
  std::vector<transformer::LayerTimer> layer_timers(std::vector<gpu::KernelTimer>& kernels) const;
  /// Shares of the time of slots, at the clock that they give. @throws InputError: a data type without a tensor rate
  gpu::LayerTraffic planned_traffic() const;
  /// @throws InputError: a schedule or a slot too long for the labels of jobs
  void check_labels() const;
  /// The sockets of the ranks' GPUs.
  workload::training::HostSide hosts() const;
  /// What ranks have in the memory of a socket.
  struct HostUse {
    Bytes activations = 0, state = 0;
    std::uint32_t ranks = 0;
    Bytes total() const { return activations + state; }
  };
  /// Of the fullest socket. @param plan  of the ranks of this run
  HostUse host_use(const workload::training::MemoryPlan& plan) const;
  /// @throws InputError: what is offloaded does not fit into host memory
  void check_host_fits() const;
  /// The changes of the scenario with which it fits, and what a rank then needs, for an error.
  std::string what_fits() const;
  workload::Mesh mesh() const;
  workload::training::StageTimes mean_stage_times() const;
  /// With what W keeps of the activations, but without times.
  workload::training::ScheduleSpec schedule_spec() const;
  /// Of --explain: what a rank sends in a step to the other ranks of each of its groups.
  Value sent_by_group() const;
  Value hottest_shares() const;
  Value memory_terms() const;
  /// At the peak, by the rank that needs most; the first of equal ranks.
  const workload::training::HeldMemory& largest_held() const;
  const gpu::GpuDatasheet& gpu_of(std::uint32_t pipeline_rank) const {
    return scenario_.machine.groups[spec().group_of(pipeline_rank)].gpu;
  }
  /// Of a rank of the pipeline rank.
  double left_bytes(const workload::training::MemoryPlan& plan, std::uint32_t pipeline_rank) const;
  /// Of the pipeline rank with the least memory left; the first of equal ones.
  const workload::training::PeakMemory& tightest(const workload::training::MemoryPlan& plan) const;
  std::string title() const;
  /// The name of the schedule.
  std::string schedule_text() const;
  double steps() const { return spec().steps; }
  bool divides_weights() const { return step_->divided_weights() != nullptr; }
  GtpTimes gtp() const { return gtp_times(*step_, scenario_.model.layers, steps()); }
  /// A number that is not known before the last step is done.
  Value of_a_step(double number) const { return done() ? Value(number) : Value(); }
  double step_s() const { return step_->end().seconds() / steps(); }
  /// FLOPs of a step over all ranks, without recomputation.
  double model_flops() const;
  double hardware_flops() const;
  double peak_flops() const;
  /// Mean of a part of the time, over all ranks of the whole mesh, of one step.
  double mean_of(const std::function<double(const workload::training::RankAccount&)>& part) const;
  double mean(double (workload::training::RankAccount::*part)() const) const;
  double mean(double (workload::training::RankAccount::*part)(TrafficClass) const, TrafficClass c) const;

  std::vector<GpuId> gpus_;  ///< by rank
  std::vector<execution::Rank*> ranks_;
  std::vector<gpu::KernelTimer> kernels_;        ///< by group of the machine
  std::vector<transformer::LayerTimer> timers_;  ///< the same
  std::unique_ptr<workload::training::SlotPlans> plans_;
  std::vector<workload::training::StageTimes> stage_times_;  ///< planned, by virtual stage
  workload::training::Schedule table_;                       ///< as workload.schedule reads it
  workload::training::Schedule schedule_;
  std::unique_ptr<workload::training::MemoryPlan> memory_;
  std::unique_ptr<workload::training::TrainingStep> step_;
  std::optional<MemoryTable> memory_csv_;
};

}  // namespace railyard
