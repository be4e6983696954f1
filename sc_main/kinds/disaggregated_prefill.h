// workload.kind: disaggregated_prefill as a run: its grids placed on GPUs of the groups `prefill` and `decode`.
#pragma once

#include "sc_main/kinds/workload_run.h"
#include "workload/prefill/system.h"

namespace railyard {

class DisaggregatedPrefill : public WorkloadRun {
 public:
  using Spec = workload::prefill::PrefillSpec;

  /// @throws InputError: ranks that do not fit in memory, a data type without a tensor rate
  DisaggregatedPrefill(const Scenario& scenario, platforms::Machine& machine, execution::Executor& executor);

  workload::prefill::System& system() { return *system_; }

  const char* kind() const override { return "disaggregated_prefill"; }
  void start() override { system_->start(); }
  void simulate_every_collective() override { system_->simulate_every_collective(); }
  bool done() const override { return system_->done(); }
  std::string progress() const override;
  double done_ratio() const override;
  std::uint64_t expected_jobs() const override;
  std::vector<std::string> blocked() override;
  std::vector<RouteOfInterest> routes() override;
  std::vector<transport::Traffic> traffic() override { return system_->traffic(); }
  std::vector<std::string> phases() const override { return {"prefill", "decode"}; }
  void follow_phases(workload::PhaseListener& listener) override { system_->follow_phases(listener); }
  void follow_requests(workload::RequestListener& listener) override { system_->follow_requests(listener); }
  nlohmann::ordered_json explain() override;
  std::string explain_text(const nlohmann::ordered_json& numbers) const override;
  nlohmann::ordered_json compute() override {
    return profile_use({&system_->prefill_grid().timer(), &system_->decode_grid().timer()});
  }
  void add_setup(nlohmann::ordered_json& setup) const override;
  void add_metrics(nlohmann::ordered_json& metrics) override;
  std::string table(const nlohmann::ordered_json& summary) const override;
  void write_tables(const OutputDirectory& out) const override;

 private:
  const Spec& spec() const { return scenario_.spec<Spec>(); }
  /// Chunks and decode steps, about.
  static std::uint64_t expected_passes(const workload::prefill::PrefillSpec& spec);
  std::vector<GpuId> place(const workload::prefill::Mapping& mapping, const char* group) const;
  void assign_nics(const std::vector<GpuId>& ranks);
  using LayerPlans = std::vector<std::vector<transformer::LayerStep>>;  // by the model's kinds of layers
  nlohmann::ordered_json pass_numbers(workload::prefill::Grid& grid, const std::vector<GpuId>& gpus,
                                      const LayerPlans& plans, std::uint64_t tokens);

  std::vector<GpuId> prefill_gpus_, decode_gpus_;
  std::unique_ptr<workload::prefill::System> system_;
};

}  // namespace railyard
