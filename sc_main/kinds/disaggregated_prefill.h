// Runs workload.kind: disaggregated_prefill: its instances are placed on GPUs of the groups `prefill` and `decode`.
#pragma once

#include "sc_main/kinds/prefill_metrics.h"
#include "sc_main/kinds/workload_run.h"

#include "sc_main/output_file.h"
#include "workload/inference/service/prefill_spec.h"
#include "workload/inference/service/service.h"

namespace railyard {

class DisaggregatedPrefill : public WorkloadRun, private workload::inference::ServiceSink {
 public:
  using Spec = workload::inference::PrefillSpec;

  /// @throws InputError: ranks that do not fit in memory, or a data type without a tensor rate
  DisaggregatedPrefill(const Scenario& scenario, platforms::Machine& machine, execution::Executor& executor);

  workload::inference::Service& service() { return *service_; }

  void start() override { service_->start(); }
  bool done() const override { return service_->api_server().done(); }
  std::string progress() const override;
  double done_ratio() const override;
  std::uint64_t expected_jobs() const override;
  std::vector<std::string> blocked() override;
  std::vector<RouteOfInterest> routes() override;
  std::vector<transport::Traffic> traffic() override { return service_->traffic(); }
  std::vector<std::string> phases() const override { return {"prefill", "decode"}; }
  void follow_phases(workload::PhaseListener& listener) override { service_->follow_phases(listener); }
  void follow_requests(workload::RequestListener& listener) override { service_->follow_requests(listener); }
  Value explain() override;
  std::string explain_text(const Value& numbers) const override;
  Value compute() override {
    return profile_use({&service_->instance(0).grid().timer(), &service_->instance(1).grid().timer()});
  }
  void add_setup(Value& setup) const override;
  static const Metrics<PrefillFigures>& declared_metrics();
  void add_metrics(Value& metrics) const override;
  std::string table() const override;
  void open_tables(const OutputDirectory& out) override;
  void write_tables(const OutputDirectory& out) override;

 private:
  /// Writes a row of requests.csv.
  void on_served(std::uint32_t request, const workload::inference::Served& served) override;
  const Spec& spec() const { return scenario_.spec<Spec>(); }
  const PrefillFigures& figures() const;
  /// Estimated number of chunks and decode steps.
  static std::uint64_t expected_passes(const workload::inference::PrefillSpec& spec);
  std::vector<GpuId> place(const workload::inference::Mapping& mapping, const char* group) const;
  void assign_nics(const std::vector<GpuId>& ranks);

  std::vector<GpuId> prefill_gpus_, decode_gpus_;
  std::unique_ptr<workload::inference::Service> service_;
  std::unique_ptr<PrefillFigures> figures_;
  std::optional<OutputFile> requests_csv_;
};

}  // namespace railyard
