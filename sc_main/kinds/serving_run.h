// Runs workload.kind: serving, and its preset disaggregated_prefill: engines on the GPUs of groups. An engine has a scheduler with
// continuous batching and paged KV cache, or one that gives whole sequences memory; all engines of a service are of one sort.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "sc_main/kinds/serving_log.h"
#include "sc_main/kinds/serving_metrics.h"
#include "sc_main/kinds/workload_run.h"
#include "sc_main/output_file.h"
#include "workload/inference/service/service.h"

namespace railyard {

class ServingRun : public WorkloadRun, private workload::inference::ServiceSink {
 public:
  using Spec = workload::inference::ServingSpec;
  static constexpr EnergyPer kEnergyPer = EnergyPer::request;

  /// @throws InputError: no memory for KV cache, or a data type without a tensor rate
  ServingRun(const Scenario& scenario, platforms::Machine& machine, execution::Executor& executor);

  void start() override { service_->start(); }
  Bytes usable_bytes(const gpu::Gpu& gpu) const override {
    return is_paged() ? static_cast<Bytes>(gpu.datasheet().hbm.visible_bytes()) : gpu.hbm().capacity();
  }
  bool done() const override { return service_->api_server().done(); }
  bool is_open() const override { return service_->api_server().is_open(); }
  std::size_t events_left() const override { return done() ? service_->events_left() : 0; }
  bool complete() const override {
    return done() && service_->api_server().refused() == 0 && service_->api_server().aborted() == 0;
  }
  std::string progress() const override;
  double done_ratio() const override;
  std::uint64_t expected_jobs() const override;
  std::vector<std::string> blocked() override;
  std::vector<RouteOfInterest> routes() override;
  std::vector<transport::Traffic> traffic() override { return service_->traffic(); }
  std::vector<std::string> phases() const override;
  std::vector<TrafficClass> classes() const override;
  void follow_phases(workload::PhaseListener& listener) override {
    if (!phases().empty()) service_->follow_phases(listener);
  }
  void follow_requests(workload::RequestListener& listener) override { service_->follow_requests(listener); }
  std::vector<std::string> engines() const override;
  void follow_engines(workload::EngineListener& listener) override { service_->follow_engines(listener); }
  void open_iterations(const OutputDirectory& out) override;
  void prepare_log() override;
  std::string log_text(Time now) override { return log_->text(*service_, now); }
  Value explain() override;
  std::string explain_text(const Value& numbers) const override;
  Value compute() override;
  void add_setup(Value& setup) const override;
  static const Metrics<ServingFigures>& declared_metrics() { return serving_metrics(); }
  void add_metrics(Value& metrics) const override { railyard::add_metrics(metrics, declared_metrics(), figures()); }
  WorkDone work_done() const override;
  std::string table() const override;
  void open_tables(const OutputDirectory& out) override;
  void write_tables(const OutputDirectory& out) override;

  workload::inference::Service& service() { return *service_; }
  /// Of the KV cache of each instance.
  const std::vector<std::uint32_t>& kv_blocks() const { return blocks_; }

 private:
  const Spec& spec() const { return scenario_.spec<Spec>(); }
  using InstanceSpec = workload::inference::InstanceSpec;
  const gpu::GpuDatasheet& gpu(const InstanceSpec& instance) const {
    return scenario_.machine.groups[instance.group].gpu;
  }
  /// Whether instances can lose requests.
  bool can_lose() const;
  std::string host_names() const;
  bool is_paged() const { return !spec().instances.front().whole; }
  /// Whether there are several instances for a part of requests.
  bool has_choice() const;
  /// Whether the KV of prompts goes from one instance to the other.
  bool hands_over(std::size_t from, std::size_t to) const;
  /// Of whole sequences: in each chunk and step the collectives of layers, and the host's work for each token.
  std::uint64_t expected_jobs_of_list() const;
  /// The collectives of all layers, or launches of them.
  std::uint64_t jobs_of_pass(const InstanceSpec& instance) const;
  /// The machine's NICs of the ranks, by the rule of the scenario.
  void assign_nics(const std::vector<GpuId>& ranks);
  /// "d 0-3,6": the group, and its GPUs by rank.
  std::string gpus_text(const InstanceSpec& instance) const;
  /// Name, role, mapping, GPUs and scheduler.
  Value instance_value(const InstanceSpec& instance) const;
  // For --explain: the memory and the largest passes of an instance; the first of the listed requests; the handoff of its first
  // chunk.
  Value paged_arithmetic(std::size_t id);
  Value whole_arithmetic(std::size_t id);
  Value first_request_arithmetic(const Value& instances) const;
  Value handoff_arithmetic();
  const ServingFigures& figures() const;
  std::string instance_table(std::size_t id, const ServingFigures::Instance& figures) const;
  /// Of alike instances [first, end): what lies between which values.
  std::string range_table(std::size_t first, std::size_t end) const;
  /// "tp 8, pp 1, vllm-0.19"
  std::string mapping_text(const InstanceSpec& instance) const;
  /// Of the fullest rank of an instance: "75.60 of 85 GB".
  std::string memory_text(std::size_t id) const;
  /// Write a row of requests.csv and iterations.csv.
  void on_served(std::uint32_t request, const workload::inference::Stay& stay) override {
    write_request(request, stay, stay.times.last_token, false);
  }
  void on_aborted(std::uint32_t request, const workload::inference::Stay& stay) override {
    write_request(request, stay, stay.request.leaves, true);
  }
  void write_request(std::uint32_t request, const workload::inference::Stay& stay, Time end, bool is_aborted);
  void on_iteration(std::size_t instance, std::uint32_t number, const workload::inference::Iteration& iteration,
                    Time completed) override;
  void on_kv_moved(const workload::inference::KvMoved& moved) override;
  /// The sending port of a link, "gpus.s0.nic1.cable"; "" without one.
  std::string port_name(const transport::PortCounters* counters);
  void on_routed(std::uint32_t request, workload::inference::RequestPart part,
                 const workload::inference::Candidates& candidates, const workload::inference::Router::Choice& choice,
                 Time now) override;

  std::vector<std::vector<GpuId>> gpus_;  ///< by instance and rank
  std::vector<std::uint32_t> blocks_;     ///< of paged KV cache, by instance
  std::unique_ptr<workload::inference::Service> service_;
  std::optional<OutputFile> requests_csv_, iterations_csv_, routing_csv_, transfers_csv_;
  std::unordered_map<const transport::PortCounters*, std::string> port_names_;
  std::unique_ptr<ServingLog> log_;
  std::unique_ptr<ServingFigures> figures_;
};

}  // namespace railyard
